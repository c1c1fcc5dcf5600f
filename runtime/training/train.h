// The training loop.
#pragma once
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "dsl/base/error.h"
#include "runtime/executor.h"
#include "runtime/training/progress.h"

namespace hetsynth {

struct TrainOptions {
  int64_t first_step = 0;       ///< steps already done, by a checkpoint
  int64_t steps = 600;          ///< to do now
  std::string log_json;         ///< file; empty: none
  std::ostream* out = nullptr;  ///< progress goes here; nullptr: nowhere
  ProgressOptions progress;
  std::string checkpoint;        ///< file; empty: none. Written at the end, also after Ctrl-C and if no step is done
  int64_t checkpoint_every = 0;  ///< and each so many steps; 0: only at the end
  std::function<void(const StepReport&)> on_step;  ///< after every step
  /// The error that a loss which is not finite ends the run with; empty: one that names the step.
  std::function<UserError(const StepReport&)> explain;
};

struct TrainReport {
  std::vector<double> losses;   ///< of the steps done, in order
  bool interrupted = false;     ///< SIGINT or SIGTERM came; the current step was finished
  double seconds = 0;           ///< of all steps
  double smoothed_loss = 0;     ///< average of the last steps
  double units_per_second = 0;  ///< of the last steps
  WorkUnit unit;
  std::vector<double> idle;  ///< per rank: share of the time
};

/// Runs steps until all are done or a signal asks to stop. The same seed and plan give bitwise the same losses. Throws
/// UserError (exit code 1) naming the step if the loss is not finite, and whatever Executor::step throws.
TrainReport train(Executor& executor, const BatchSource& data, const TrainOptions& options);

/// "100 steps in 12.3 s, loss 5.5452 -> 2.1034, 8.3k tokens/s, idle fast0 3% slow0 12%".
std::string summary(const TrainReport& report, const std::vector<std::string>& devices);

}  // namespace hetsynth
