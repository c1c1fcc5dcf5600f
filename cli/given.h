// What the processes of a run were given.
#pragma once
#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/run_options.h"
#include "runtime/processes/agreement.h"
#include "runtime/processes/job.h"
#include "runtime/training/checkpoint.h"

namespace hetsynth::cli {

/// What every command compares under a launcher: the version, each option of the command as it stands on the command
/// line (its default, if it does not), files that decide a plan by their contents, the options of the model, and the
/// model itself. Not compared are options that decide neither numbers nor plan nor which calls processes make together,
/// and those whose contents the command compares itself; given.cpp lists both. An option that is new is compared.
std::vector<GivenValue> given_to_command(const CLI::App& command, const Compilation& compilation);

/// Processes that were given different things would train on silently, or wait for each other for ever: throws
/// UserError naming what differs. `weights`: the fingerprint of those that parameters start with, empty if there are
/// none. `validation`: the data of --valid, if there are any.
void agree_with_others(Job& job, const RunOptions& options, const std::optional<CheckpointInfo>& resumed,
                       const std::string& weights, const BatchSource& data, const BatchSource* validation);

}  // namespace hetsynth::cli
