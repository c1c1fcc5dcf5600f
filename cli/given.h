// What the processes of a run were given.
#pragma once
#include <optional>

#include "cli/run_options.h"
#include "runtime/processes/job.h"
#include "runtime/training/checkpoint.h"

namespace hetsynth::cli {

/// Processes that were given different things would train on silently, or wait for each other for ever: throws
/// UserError naming what differs. `weights`: the fingerprint of those that parameters start with, empty if there are
/// none.
void agree_with_others(Job& job, const RunOptions& options, const std::optional<CheckpointInfo>& resumed,
                       const std::string& weights, const BatchSource& data);

}  // namespace hetsynth::cli
