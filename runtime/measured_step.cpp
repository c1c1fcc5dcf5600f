#include "runtime/measured_step.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "runtime/processes/packed_words.h"
#include "runtime/rank/throttle.h"

namespace hetsynth {
namespace {

/// How far the clock of each process is ahead of the first one's. Hosts have clocks of their own.
std::vector<double> clock_offsets(Job& job) {
  constexpr int rounds = 8;
  const auto count = size_t(job.count());
  std::vector<ClockOffset> offsets(count);
  struct Times {
    double said, heard;  ///< of this round, and when all of the round before were heard
  };
  std::vector<Times> before;
  double heard = wall_seconds();
  for (int round = 0; round <= rounds; ++round) {
    std::string own;
    append(own, Times{wall_seconds(), heard});
    const std::vector<std::string> all = job.exchange(own);
    heard = wall_seconds();
    std::vector<Times> now;
    for (const std::string& words : all) now.push_back(WordReader(words).next<Times>());
    // What one said in the round before, the others had heard at the end of it.
    for (size_t p = 1; p < count && !before.empty(); ++p)
      offsets[p].note(before[p].said, now[0].heard, before[0].said, now[p].heard);
    before = std::move(now);
  }
  std::vector<double> out{0};
  for (size_t p = 1; p < count; ++p) out.push_back(offsets[p].seconds());
  return out;
}

void shift(RankTrace& trace, double seconds) {
  trace.start += seconds;
  trace.end += seconds;
  for (TraceSpan& span : trace.spans) span.start += seconds, span.end += seconds;
}

}  // namespace

void ClockOffset::note(double said_there, double heard_here, double said_here, double heard_there) {
  least_ = std::max(least_, said_there - heard_here);
  most_ = std::min(most_, heard_there - said_here);
}

void RecentSteps::add(MeasuredStep step) {
  steps_.push_back(std::move(step));
  if (steps_.size() > most) steps_.pop_front();
}

const MeasuredStep& RecentSteps::usual() const {
  std::vector<const MeasuredStep*> sorted;
  for (const MeasuredStep& step : steps_) sorted.push_back(&step);
  std::ranges::stable_sort(sorted, {}, &MeasuredStep::seconds);
  return *sorted[(sorted.size() - 1) / 2];
}

void gather(Job& job, const std::vector<int>& here, MeasuredStep& step) {
  const std::vector<double> ahead = clock_offsets(job);
  std::string own;
  for (const int rank : here) {
    const RankTrace& trace = step.ranks.at(size_t(rank));
    append(own, rank);
    append(own, trace.start);
    append(own, trace.end);
    append(own, trace.spans.size());
    append(own, trace.spans.data(), trace.spans.size() * sizeof(TraceSpan));
  }
  const std::vector<std::string> all = job.exchange(own);
  for (size_t process = 0; process < all.size(); ++process)
    for (WordReader reader(all[process]); !reader.at_end();) {
      RankTrace& trace = step.ranks.at(size_t(reader.next<int>()));
      trace = {reader.next<double>(), reader.next<double>(), {}};
      trace.spans.resize(reader.next<size_t>());
      reader.take(trace.spans.data(), trace.spans.size() * sizeof(TraceSpan));
      shift(trace, -ahead[process]);
    }
}

void count_from_start(MeasuredStep& step) {
  double first = std::numeric_limits<double>::infinity();
  for (const RankTrace& trace : step.ranks) first = std::min(first, trace.start);
  for (RankTrace& trace : step.ranks) shift(trace, -first);
}

}  // namespace hetsynth
