// One thread per rank, alive for the whole run.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "runtime/rank/run_state.h"

namespace hetsynth {

struct ThreadOptions {
  /// Threads an OpenMP library (oneDNN) may use inside each rank; 0: see below.
  int threads_per_rank = 0;
  /// Spread the ranks over the machine's NUMA nodes, where there are several.
  bool bind_to_numa_nodes = true;
  /// Seconds after which a rank that computes without meeting the others or ending its work is told of in the log.
  double quiet_seconds = 60;
  /// Where threads_per_rank is 0: threads by rank of the run; empty: as many as cores divided by ranks, at least 1.
  std::vector<int> threads_of_rank = {};
};

/// Cores this process may use.
int usable_cores();

class RankThreads {
 public:
  /// `ranks`: those of this process; empty: all of the run.
  RankThreads(RunState& state, const ThreadOptions& options, std::vector<int> ranks = {});
  ~RankThreads();
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;

  /// Runs `work(rank)` on the thread of each of these ranks and returns when all have ended. An exception ends the run
  /// for all ranks: throws what `RunState::rethrow_failure` gives, also for every later call.
  void run(const std::function<void(int)>& work);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hetsynth
