// What slow devices of a run leave out of their products (--balance lossy).
#pragma once
#include <string>
#include <vector>

#include "cli/run_options.h"
#include "runtime/balance/resizing.h"
#include "runtime/executor.h"
#include "runtime/processes/job.h"

namespace hetsynth::cli {

/// Throws UserError for --leave-out that means nothing: without --balance lossy (usage), for no part, for a device
/// twice.
void check_leave_out(const RunOptions& options);

/// Throws UserError if the traced model has no columns that could be left out.
void check_has_columns(const Compilation& compilation);

/// Throws UserError if a device of the plan cannot leave columns out, or --leave-out names none of them.
void check_lossy_devices(const RunOptions& options);

/// The parts of --leave-out by rank.
std::vector<double> left_out_by_hand(const RunOptions& options);

/// The ranks of a run under one plan: what they compute, with nothing left out, and what they should leave out.
class LeavingOut {
 public:
  /// All outlive it.
  LeavingOut(const Compilation& compilation, Executor& executor, Job* job);

  /// Takes in a step; the seconds that each rank would have computed in it with all columns.
  std::vector<double> with_all_columns(const StepReport& report);
  /// The best parts at these speeds: seconds by rank with all columns, and as multiples of what was planned.
  Resizing best(const std::vector<double>& seconds, const std::vector<double>& slowness, double least_gain) const;
  /// From the next step on ranks leave these parts out; whether that changes anything. The first process's count.
  bool take(std::vector<double> parts);

 private:
  const Compilation& c_;
  Executor& executor_;
  Job* const job_;
  std::vector<ComputeShares> ranks_;  ///< of the last steps
};

}  // namespace hetsynth::cli
