// From a plan to ranks that are ready to run: the stages `generate` and `compile`.
#pragma once
#include <memory>

#include "dsl/spmd/cluster.h"
#include "runtime/executor.h"

namespace hetsynth {

struct LaunchReport {
  double generate_seconds = 0;
  double compile_seconds = 0;
  int compiled = 0;    ///< sources that were compiled
  int from_cache = 0;  ///< sources whose code was found in the disk cache
};

/// Generates, compiles (several ranks at once) and loads every rank's program, and initialises parameters. Throws
/// UserError (exit code 1) if a device of the cluster cannot run in this process; that is found before anything is
/// compiled.
std::unique_ptr<Executor> launch(const Program& reference, const SpmdProgram& program, const Cluster& cluster,
                                 const ExecutorOptions& options, LaunchReport* report = nullptr);

}  // namespace hetsynth
