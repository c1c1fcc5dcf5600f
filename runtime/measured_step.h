// Measured timelines of steps: which one is shown, and how those of several processes become one.
#pragma once
#include <cstdint>
#include <deque>
#include <limits>
#include <vector>

#include "runtime/processes/job.h"
#include "runtime/rank/step_trace.h"

namespace hetsynth {

/// What all ranks did in a step.
struct MeasuredStep {
  int64_t step = 0;
  double seconds = 0;            ///< as the step log has it
  std::vector<RankTrace> ranks;  ///< by rank
};

/// The traces of the last steps. The first ones of a run touch memory for the first time, and any may be disturbed by
/// others that use the machine: one of median length is shown.
class RecentSteps {
 public:
  static constexpr size_t most = 9;

  void add(MeasuredStep step);
  bool empty() const { return steps_.empty(); }
  /// The one of median length; of several processes, whose steps are the same and equally long, all choose the same.
  const MeasuredStep& usual() const;

 private:
  std::deque<MeasuredStep> steps_;
};

/// Fills in what ranks of other processes did, in the time of the first process. All processes call it alike; `here`
/// are the ranks of this one.
void gather(Job& job, const std::vector<int>& here, MeasuredStep& step);

/// Puts the origin of time at the beginning of the rank that began first.
void count_from_start(MeasuredStep& step);

/// How far another clock is ahead of this one, from words that went to and fro: nothing is heard before it is said.
class ClockOffset {
 public:
  /// The other said a word by its clock, and it was heard here; and one was said here, and the other heard it.
  void note(double said_there, double heard_here, double said_here, double heard_there);
  /// In the middle of what is possible. Clocks that may be one are taken as one: 0.
  double seconds() const { return least_ <= 0 && most_ >= 0 ? 0 : (least_ + most_) / 2; }

 private:
  double least_ = -std::numeric_limits<double>::infinity(), most_ = std::numeric_limits<double>::infinity();
};

}  // namespace hetsynth
