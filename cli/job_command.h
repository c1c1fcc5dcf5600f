// A command as one of several processes that mpirun or srun has started.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>

#include "dsl/base/error.h"
#include "runtime/processes/job.h"

namespace hetsynth::cli {

/// Runs `work` with the job that a launcher started this process for, or with none. Only the first process writes to
/// standard output. If `work` throws in one process, all end within seconds: the others say who failed, and that
/// process's own error comes last.
ExitCode run_in_job(const std::function<ExitCode(Job*)>& work, const JobOptions& options = {});

/// Adds --patience: the seconds after which a process that nothing is heard of counts as dead.
void add_patience(CLI::App& command, double& seconds);
JobOptions with_patience(double seconds);

}  // namespace hetsynth::cli
