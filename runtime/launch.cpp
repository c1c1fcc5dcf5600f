#include "runtime/launch.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "codegen/device_program.h"
#include "dsl/base/error.h"
#include "dsl/jit/compiled_code.h"
#include "runtime/abi.h"
#include "runtime/throttle.h"

namespace hetsynth {
namespace {

/// Runs work(0) ... work(count - 1) on as many threads as there are cores; rethrows the first exception by number.
void in_parallel(int count, const std::function<void(int)>& work) {
  std::vector<std::exception_ptr> failures(static_cast<size_t>(count));
  std::atomic<int> next{0};
  const auto serve = [&] {
    for (int i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        failures[static_cast<size_t>(i)] = std::current_exception();
      }
    }
  };
  std::vector<std::thread> threads;
  const int helpers = std::min(count, static_cast<int>(std::thread::hardware_concurrency())) - 1;
  for (int i = 0; i < helpers; ++i) threads.emplace_back(serve);
  serve();
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

StepFunction compile(const DeviceProgram& program, int optimization, const std::map<std::string, void*>& symbols,
                     std::atomic<int>& cached) {
  CompileOptions options;
  options.optimization = optimization;
  options.file_name = program.files.front().name;
  const CompiledCode code = compile_cached(program.files.front().text, options);
  if (code.from_cache) ++cached;
  const NativeModule module = NativeModule::load(code.object, options.file_name, symbols);
  auto* const step = module.function<int(HetsynthContext*)>("hetsynth_step");
  return [step, module](HetsynthContext* context) { return step(context); };
}

}  // namespace

std::unique_ptr<Executor> launch(const Program& reference, const SpmdProgram& program, const Cluster& cluster,
                                 const LaunchOptions& options, LaunchReport* report) {
  const int ranks = program.mesh.device_count();
  HETSYNTH_CHECK(static_cast<size_t>(ranks) == cluster.devices.size(), "one device per rank");
  std::vector<RankProgram> programs(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    programs[static_cast<size_t>(rank)].device = cluster.devices[static_cast<size_t>(rank)];
    require_runnable(programs[static_cast<size_t>(rank)].device);
  }
  const double start = wall_seconds();
  in_parallel(ranks, [&](int rank) {
    programs[static_cast<size_t>(rank)].layout = options.programs
                                                     ? options.programs->at(static_cast<size_t>(rank))
                                                     : generate(reference, program, cluster, rank);
  });
  const double generated = wall_seconds();

  std::map<std::string, void*> symbols;
  for (const auto& [name, address] : abi_symbols()) symbols[name] = address;
  std::atomic<int> cached{0};
  in_parallel(ranks, [&](int rank) {
    RankProgram& target = programs[static_cast<size_t>(rank)];
    target.step = compile(target.layout, options.optimization, symbols, cached);
  });
  if (report) {
    report->generate_seconds = generated - start;
    report->compile_seconds = wall_seconds() - generated;
    report->from_cache = cached;
    report->compiled = ranks - cached;
  }
  auto executor = std::make_unique<Executor>(reference, program.mesh, std::move(programs), options.executor);
  executor->initialise();
  return executor;
}

Cluster ranks_of(const Plan& plan, const Cluster& cluster) {
  Cluster out = cluster;
  out.devices.clear();
  for (const PlanDevice& wanted : plan.devices) {
    const auto found = std::ranges::find(cluster.devices, wanted.name, &Device::name);
    if (found == cluster.devices.end()) {
      throw UserError({{cluster.file, 0, 0},
                       "cluster",
                       "the plan runs on a device that the cluster does not have",
                       wanted.name,
                       "",
                       "use the cluster the plan was made for, or plan again"});
    }
    out.devices.push_back(*found);
  }
  return out;
}

}  // namespace hetsynth
