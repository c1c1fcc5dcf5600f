// From a plan to ranks that are ready to run: the stages `generate` and `compile`.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "codegen/interface/device_program.h"
#include "dsl/spmd/plan.h"
#include "runtime/executor.h"

namespace hetsynth {

namespace cuda {
struct Backend;
struct GpuPart;
}  // namespace cuda

struct LaunchOptions {
  ExecutorOptions executor = {};
  int optimization = 3;  ///< -O level of the compiler
  /// What was generated (and checked) before, by rank; null: generate now.
  const std::vector<DeviceProgram>* programs = nullptr;
  /// What cuda devices run on; null: this machine's libraries. Must outlive the executor.
  const cuda::Backend* cuda = nullptr;
  /// By rank: the part of its GPU that it has; null: each has all of its own. Must outlive the executor.
  const std::vector<cuda::GpuPart>* parts = nullptr;
  /// The caller sets all parameters before the first step: they are not drawn.
  bool parameters_follow = false;
};

struct LaunchReport {
  double generate_seconds = 0;
  double compile_seconds = 0;
  int compiled = 0;    ///< source files that were compiled
  int from_cache = 0;  ///< source files whose code was found in the disk cache
};

/// Ranks with their code, and without memory as yet.
struct CompiledRanks {
  Mesh mesh;
  std::vector<RankProgram> programs;  ///< of all ranks; those of other processes have no code
  /// GPUs of several processes find each other; all processes call it alike, before the ranks get their memory. Empty
  /// where there is nothing to find.
  std::function<void()> meet;
};

/// Generates, compiles (several ranks at once) and loads every rank's program. Rank r runs on device r of the cluster;
/// a cuda device is the GPU of its `index` on this machine. Where there are several processes (options.executor.job)
/// each does so for its own ranks, and none waits for another. Throws UserError (exit code 1) if a device cannot run in
/// this process; that is found before anything is compiled.
CompiledRanks compile_ranks(const Program& reference, const SpmdProgram& program, const Cluster& cluster,
                            const LaunchOptions& options, LaunchReport* report = nullptr);

/// The same, and the ranks get memory, parameters and states.
std::unique_ptr<Executor> launch(const Program& reference, const SpmdProgram& program, const Cluster& cluster,
                                 const LaunchOptions& options, LaunchReport* report = nullptr);

/// The devices a plan runs on, in rank order: those of the cluster with the names the plan gives. Throws UserError if
/// the cluster lacks one.
Cluster ranks_of(const Plan& plan, const Cluster& cluster);

}  // namespace hetsynth
