// The loss on other data while a model trains: a program of its own, without gradients and dropout, that is planned,
// proved and compiled beside that of training, and takes over its parameters.
#pragma once
#include <memory>
#include <optional>

#include "cli/run_options.h"
#include "runtime/executor.h"
#include "runtime/training/evaluate.h"

namespace hetsynth::cli {

class Validation {
 public:
  /// Traces the evaluation of the model and opens its data. Throws UserError for what is wrong with either, before
  /// anything is planned. `options` and `job` outlive it; the model of the run is loaded.
  Validation(const RunOptions& options, Job* job);

  /// Plans the evaluation in the memory that training leaves, proves it and compiles it. The exit code of a run that
  /// ends here; none: go on. `training` outlives it. `quiet_seconds`: see ThreadOptions. Of several processes all call
  /// it alike.
  std::optional<ExitCode> prepare(const Executor& training, double quiet_seconds);

  /// Measures the loss with the parameters that training has now, under whatever plan it runs now.
  Evaluation run();

  const BatchSource& data() const { return *data_; }

 private:
  const RunOptions& options_;
  Job* const job_;
  Compilation compilation_;
  std::unique_ptr<BatchSource> data_;
  int64_t batches_ = 0;
  const Executor* training_ = nullptr;
  std::unique_ptr<Executor> executor_;
};

/// The lowest validation loss of the run that is continued, as far as its checkpoints tell; infinity: none is known.
double best_before(const RunOptions& options);

}  // namespace hetsynth::cli
