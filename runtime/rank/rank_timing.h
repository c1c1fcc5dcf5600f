// Times work that all ranks do at the same time.
#pragma once
#include <algorithm>
#include <functional>
#include <vector>

#include "runtime/rank/median.h"
#include "runtime/rank/rank_threads.h"
#include "runtime/rank/throttle.h"

namespace hetsynth {

/// Median seconds of the work on the rank that needs longest. Each rank repeats it for `seconds`, three times at least,
/// after a first time that does not count.
inline double slowest_median(RankThreads& threads, int ranks, double seconds, const std::function<void(int)>& work) {
  std::vector<double> medians(static_cast<size_t>(ranks));
  threads.run([&](int rank) {
    work(rank);  // the first one touches memory and makes the library's code
    std::vector<double> times;
    const double end = wall_seconds() + seconds;
    while (wall_seconds() < end || times.size() < 3) {
      const double start = wall_seconds();
      work(rank);
      times.push_back(wall_seconds() - start);
    }
    medians[size_t(rank)] = median(std::move(times));
  });
  return *std::max_element(medians.begin(), medians.end());
}

/// The same for work that ranks do together, which all have to repeat equally often.
inline double slowest_median(RankThreads& threads, int ranks, int rounds, const std::function<void(int)>& work) {
  std::vector<double> medians(static_cast<size_t>(ranks));
  threads.run([&](int rank) {
    std::vector<double> times;
    for (int round = 0; round <= rounds; ++round) {
      const double start = wall_seconds();
      work(rank);
      if (round > 0) times.push_back(wall_seconds() - start);
    }
    medians[size_t(rank)] = median(std::move(times));
  });
  return *std::max_element(medians.begin(), medians.end());
}

}  // namespace hetsynth
