// Balancing a run: devices that become slower or faster for good get another share of the work between two steps.
#pragma once
#include <functional>
#include <memory>

#include "cli/next_division.h"
#include "cli/run_options.h"
#include "cli/source_checks_beside.h"
#include "runtime/executor.h"
#include "runtime/launch.h"
#include "runtime/processes/job.h"
#include "runtime/training/train.h"

namespace hetsynth::cli {

/// How another division is made ready; tests do it in other ways.
struct BalanceMeans {
  std::function<CompiledRanks(const Program&, const SpmdProgram&, const Cluster&, const LaunchOptions&)> compile =
      [](const Program& reference, const SpmdProgram& program, const Cluster& cluster, const LaunchOptions& launch) {
        return compile_ranks(reference, program, cluster, launch);
      };
  CheckOfSource check = [](const Program& reference, const SpmdProgram& program,
                           const std::vector<DeviceProgram>& programs) {
    return check_generated(reference, program, programs, usual_check_work);
  };
};

/// Watches every step's measured seconds against what was planned. When speeds are known for the first time, and
/// whenever one has changed, another division of the work is looked for beside the training; where it is worth its
/// pause, all ranks go over to it at the border of the same step. The source of other shares of the same program is
/// checked beside the first steps under it: nothing is written before the check has passed, and if it fails the run is
/// taken back. Of several processes each has a Balance, and all do the same at the same steps; the one that waits most
/// looks for divisions.
class Balance {
 public:
  /// All outlive it. `executor_options`: those the executor was made with.
  Balance(RunOptions& options, Executor& executor, const ExecutorOptions& executor_options, Job* job,
          BalanceMeans means = {});
  /// Ends what is being looked for.
  ~Balance();
  Balance(const Balance&) = delete;
  Balance& operator=(const Balance&) = delete;

  /// After a step. Throws TakenBack.
  BetweenSteps after(const StepReport& report);
  /// Waits until the source of the division at hand is checked. Throws TakenBack.
  void settle();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hetsynth::cli
