// A plan for a run: made, proved, and its source checked, before anything is executed.
#pragma once
#include <optional>
#include <string>

#include "pipeline/pipeline.h"
#include "runtime/executor.h"
#include "runtime/launch.h"
#include "runtime/processes/job.h"

namespace hetsynth::cli {

struct PreparePlanOptions {
  bool unverified = false;  ///< go on with a plan that is not proved, or whose source does not do what it says
  /// What the program is for, as the one line begins that is printed of it: "validation". Empty: all of the plan and of
  /// its proof is printed.
  std::string brief = {};
  /// Standard output is for something else: nothing is printed but what speaks against the plan, on standard error.
  bool silent = false;
};

/// Asks for the model's evaluation instead of its training, by all devices of the job if there is one.
void ask_for_evaluation(Compilation& compilation, const Job* job);

/// Lets a program be planned beside one that runs, in the memory that this leaves; of several processes on the devices
/// that it has, as every process has a part of every step. `running`: what `executor` runs was compiled from.
void plan_beside(Compilation& compilation, const Compilation& running, const Executor& executor, const Job* job);

/// Plans, and proves and checks what is planned. Where there are several processes the first one does, and all others
/// take its plan. The exit code of a run that ends here; none: go on.
std::optional<ExitCode> prepare_plan(Compilation& c, const PipelineOutput& pipeline, const PreparePlanOptions& options,
                                     Job* job);

/// How the ranks of a prepared plan are launched: each in its process, with its cores and what was generated for it.
LaunchOptions launch_options(const Compilation& c, uint64_t seed, Job* job);

}  // namespace hetsynth::cli
