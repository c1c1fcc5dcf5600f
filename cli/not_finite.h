// Where a loss that is not finite comes from: one step is run again with a look at every value.
#pragma once
#include <string>

#include "dsl/base/error.h"
#include "runtime/executor.h"
#include "runtime/training/optimizer_numbers.h"

namespace hetsynth::cli {

/// What a search for the cause needs besides the executor that failed.
struct FailedRun {
  int64_t first_step = 0;   ///< of the run
  std::string checkpoint;   ///< that the run began with; empty: starting values
  double step_seconds = 0;  ///< that a step took
};

/// The executor's run is repeated up to the step before the one whose loss is not finite (if that takes no more than
/// half a minute), and that step and the next are run on one core of this machine, with every value kept. Gives the
/// error that names the first value that is not finite, its line, and what usually makes it so. Where that cannot be
/// found out (too many steps, too little memory) the error says so. All processes of a run call it alike; the executor
/// is good for nothing afterwards.
UserError explain_not_finite(Executor& executor, const BatchSource& data, const StepReport& report,
                             const FailedRun& run);

/// Gradients overflow though their scale became smaller many times in a row, for as long as parameters stayed what they
/// are. The step is run again on one core, with the scale that it had. Gives the error that names the first value that
/// is not finite; all processes of a run call it alike, as above.
UserError explain_overflow(Executor& executor, const BatchSource& data, const StepReport& report,
                           const OptimizerReport& told);

}  // namespace hetsynth::cli
