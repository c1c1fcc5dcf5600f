// Runs that go on from a checkpoint, and what is written for those to come.
#pragma once
#include "cli/run_options.h"
#include "runtime/processes/job.h"
#include "runtime/training/checkpoint.h"

namespace hetsynth::cli {

/// Takes over where the checkpoint stands: the order of the data and dropout go on as if training had never stopped,
/// whatever the batch is now. A checkpoint that does not fit the model is told of before planning.
CheckpointInfo continue_checkpoint(RunOptions& options);

/// Throws UserError (usage) for options that mean nothing without another one.
void check_options(const RunOptions& options);

/// What a run is to write is probed before planning, not found out after training.
void check_targets(const RunOptions& options, const Job* job);

/// Trains. A run that a lost rank or process ends names the checkpoint to go on from, and how.
TrainReport train_to_the_end(const RunOptions& options, Executor& executor, const BatchSource& data);

}  // namespace hetsynth::cli
