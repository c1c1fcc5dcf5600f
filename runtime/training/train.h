// The training loop.
#pragma once
#include <functional>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "dsl/base/error.h"
#include "runtime/executor.h"
#include "runtime/training/checkpoint.h"
#include "runtime/training/kept_checkpoints.h"
#include "runtime/training/optimizer_numbers.h"
#include "runtime/training/progress.h"
#include "runtime/training/validations.h"

namespace hetsynth {

/// What was done between two steps besides training.
struct BetweenSteps {
  std::vector<std::string> lines;    ///< for people
  std::vector<std::string> records;  ///< for the log, each a JSON object that begins with the key "step"
};

/// Thrown between two steps: the executor has gone back to ranks that it had left, and to what they held.
struct TakenBack : std::runtime_error {
  TakenBack(int64_t step, const std::string& why) : std::runtime_error(why), next_step(step) {}
  int64_t next_step;  ///< of what they hold
};

struct TrainOptions {
  int64_t first_step = 0;       ///< steps already done, by a checkpoint
  int64_t steps = 600;          ///< to do now
  std::string log_json;         ///< file; empty: none
  std::ostream* out = nullptr;  ///< progress goes here; nullptr: nowhere
  ProgressOptions progress;
  std::string checkpoint;        ///< file; empty: none. Written at the end, also after Ctrl-C and if no step is done
  int64_t checkpoint_every = 0;  ///< and each so many steps; 0: only at the end
  KeepRule keep;                 ///< checkpoints beside the newest; the best is written when it is found
  ValidationOptions validation;
  std::function<void(const StepReport&)> on_step;  ///< after every step
  /// After every step but the last, when it is in the log; the executor may go over to other ranks. Of several
  /// processes all call it alike.
  std::function<BetweenSteps(const StepReport&)> between_steps;
  /// Before parameters are written, and at the end: returns when what was trained may count. It may throw TakenBack.
  std::function<void()> before_writing;
  /// What made the tokens of the checkpoint that goes on; the data's own tokenizer, if it is known, takes its place.
  TokenOrigin tokenizer = {};
  /// What the checkpoint that goes on says of steps before.
  LeftOutSteps left_out = {};
  /// The plan that steps are taken under now, in words, for the checkpoint; empty: it says nothing of it.
  std::function<std::string()> plan;
  /// The error that a loss which is not finite ends the run with; empty: one that names the step.
  std::function<UserError(const StepReport&)> explain;
  /// The error that the run ends with where gradients overflow however small their scale becomes; empty: one that
  /// names the step.
  std::function<UserError(const StepReport&, const OptimizerReport&)> explain_overflow;
};

struct TrainReport {
  std::vector<double> losses;                           ///< of the steps done, in order
  std::vector<double> step_seconds;                     ///< of the same
  std::vector<std::pair<std::string, double>> metrics;  ///< of the last step
  std::vector<MeasuredLoss> validations;
  std::vector<std::string> checkpoints;  ///< files that are there at the end: the newest, then those that are kept
  int64_t next_step = 0;
  bool gave_up = false;         ///< validation showed no gain any more
  bool interrupted = false;     ///< SIGINT or SIGTERM came; the current step was finished
  double seconds = 0;           ///< of all steps
  double smoothed_loss = 0;     ///< average of the last steps
  double units_per_second = 0;  ///< of the last steps
  WorkUnit unit;
  std::optional<double> validation_loss, best_validation_loss;  ///< of the parameters at the end, and the lowest
  std::vector<std::string> devices;                             ///< that ran at the end, by rank
  std::vector<double> idle;                                     ///< of these: share of the time
  LeftOutSteps left_out;                                        ///< of the steps done
  std::vector<int64_t> memory_bytes;                            ///< of these: their arenas
};

/// Gradients that overflow in so many steps in a row, each with a smaller scale than the one before, do so because of
/// the model: a scale of 2^16 is 2^-4 by then, and of a scale it is all one whether it is halved once more.
constexpr int64_t most_falls = 20;

/// Runs steps until all are done or a signal asks to stop. The same seed and plan give bitwise the same losses. Throws
/// UserError (exit code 1) naming the step if the loss is not finite or if a loss scale fell `most_falls` times in a
/// row (after writing the checkpoint: parameters are what they were), whatever Executor::step throws, and InternalError
/// where the run is taken back, after writing the checkpoint of where it was taken back to.
TrainReport train(Executor& executor, const BatchSource& data, const TrainOptions& options);

/// "100 steps in 12.3 s, loss 5.5452 -> 2.1034, 8.3k tokens/s, idle fast0 3% slow0 12%".
std::string summary(const TrainReport& report);

}  // namespace hetsynth
