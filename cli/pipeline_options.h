// Options of the commands that run stages of the pipeline.
#pragma once
#include <CLI/CLI.hpp>
#include <vector>

#include "cli/command.h"
#include "pipeline/pipeline.h"

namespace hetsynth::cli {

void add_pipeline_options(CLI::App& command, PipelineOutput& options);

/// Adds --cluster to a command that goes without on the cores of this machine.
void add_cluster_or_cores(CLI::App& command, CompilationInput& compilation);

/// Adds the options of the synthesis to a command that plans: --effort, --time-limit, --mesh-axes and the
/// pins.
std::vector<CLI::Option*> add_planning_options(CLI::App& command, CompilationInput& compilation);

}  // namespace hetsynth::cli
