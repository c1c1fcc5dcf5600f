#include "runtime/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "codegen/cuda/attention/tensor_attention.h"
#include "codegen/interface/device_program.h"
#include "dsl/base/error.h"
#include "dsl/cluster/device_models.h"
#include "dsl/jit/compiled_code.h"
#include "dsl/spmd/hosts.h"
#include "runtime/abi/abi.h"
#include "runtime/cuda/cuda_backend.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/rank/throttle.h"

namespace hetsynth {
namespace {

/// The ranks that this process has.
std::vector<int> ranks_of_process(const ExecutorOptions& options, int ranks) {
  std::vector<int> out;
  for (int rank = 0; rank < ranks; ++rank)
    if (!options.job || options.process_of.at(static_cast<size_t>(rank)) == options.job->process()) out.push_back(rank);
  return out;
}

/// Runs work(rank) for all of `ranks` on as many threads as there are cores; rethrows the first exception by number.
void in_parallel(const std::vector<int>& ranks, const std::function<void(int)>& work) {
  const int count = static_cast<int>(ranks.size());
  std::vector<std::exception_ptr> failures(ranks.size());
  std::atomic<int> next{0};
  const auto serve = [&] {
    for (int i = next++; i < count; i = next++) {
      try {
        work(ranks[static_cast<size_t>(i)]);
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

/// Compiles source files and counts where their code came from.
class Compiler {
 public:
  Compiler(int optimization, const cuda::Backend* cuda) : optimization_(optimization), cuda_(cuda) {
    for (const auto& [name, address] : abi_symbols()) symbols_[name] = address;
    for (const auto& [name, address] : cuda::cuda_symbols()) symbols_[name] = address;
  }

  NativeModule host(const SourceFile& file) {
    CompileOptions options;
    options.optimization = optimization_;
    options.file_name = file.name;
    const CompiledCode code = compile_cached(file.text, options);
    ++(code.from_cache ? cached_ : compiled_);
    return NativeModule::load(code.object, options.file_name, symbols_);
  }

  std::string kernels(const SourceFile& file, const std::string& architecture) {
    const CudaCode code = cuda_->compile(file.text, file.name, architecture);
    if (!code.ok()) throw InternalError("generated kernels do not compile for " + architecture + ":\n" + code.log);
    ++(code.from_cache ? cached_ : compiled_);
    return code.cubin;
  }

  int cached() const { return cached_; }
  int compiled() const { return compiled_; }

 private:
  const int optimization_;
  const cuda::Backend* const cuda_;
  std::map<std::string, void*> symbols_;
  std::atomic<int> cached_{0}, compiled_{0};
};

StepFunction step_of(const NativeModule& module) {
  auto* const step = module.function<int(HetsynthContext*)>("hetsynth_step");
  return [step, module](HetsynthContext* context) { return step(context); };
}

/// cublasLt multiplies bf16 by tensor cores alone, which Ampere brought (cublasLtMatmul: "CUDA_R_16BF ... on devices of
/// compute capability 8.0 and above"), and so do the generated kernels of attention. fp16 is older (CUDA C++
/// Programming Guide, arithmetic instructions: compute capability 5.3 and above).
void refuse_halves(const Program& reference, const std::vector<Device>& devices,
                   const std::vector<std::string>& architectures) {
  struct Needed {
    DType type;
    int architecture;
    std::string_view which, mend;
  };
  static constexpr Needed needs[] = {
      {DType::bf16, 80, "the first with tensor cores for bf16",
       "train in fp16 with a DynamicLossScale (--set precision=fp16, if the model has that option), in float32 "
       "(precision=f32), or on a cluster without such devices"},
      {DType::fp16, 53, "the first that computes with fp16",
       "train in float32 (--set precision=f32, if the model has that option), or on a cluster without such devices"}};
  for (const Needed& needed : needs) {
    const auto is_such = [&](const Node& node) { return node.type.dtype == needed.type; };
    if (std::ranges::none_of(reference.nodes, is_such)) continue;
    for (size_t rank = 0; rank < architectures.size(); ++rank)
      if (!architectures[rank].empty() && architecture_number(architectures[rank]) < needed.architecture)
        throw UserError({.tag = "device",
                         .message = fmt::format("the model multiplies {}, and device {} cannot", name(needed.type),
                                                devices[rank].name),
                         .expected = fmt::format("sm_{} or later, {}", needed.architecture, needed.which),
                         .found = architectures[rank],
                         .mend = std::string(needed.mend)},
                        ExitCode::failure);
  }
}

/// Kernels are written for the architecture that the cluster file tells.
void require_tensor_cores(const DeviceProgram& program, const Device& device, const std::string& architecture) {
  if (codegen::cuda::has_tensor_cores(architecture, DType::fp16) ||
      !codegen::cuda::needs_tensor_cores(program.files.at(1).text))
    return;
  throw UserError({.tag = "device",
                   .message = fmt::format("the kernels of attention multiply fp16 by tensor cores, and device {} has "
                                          "none for them",
                                          device.name),
                   .expected = "sm_75 or later, as the cluster file says of it: " + device.architecture,
                   .found = architecture,
                   .mend = fmt::format("write architecture = \"{}\" in the cluster file and plan again", architecture)},
                  ExitCode::failure);
}

/// A rank's device with its code; what all GPU ranks share is in `ranks`.
std::unique_ptr<RankDevice> cuda_rank(const DeviceProgram& program, int ordinal, const std::string& architecture,
                                      Compiler& compiler, const cuda::Backend& backend,
                                      const std::shared_ptr<cuda::NcclRanks>& ranks, bool replays,
                                      const cuda::GpuPart& part) {
  const NativeModule host = compiler.host(program.files.at(0));
  cuda::CudaRank rank;
  rank.rank = program.rank;
  rank.ordinal = ordinal;
  rank.part = part;
  rank.cubin = compiler.kernels(program.files.at(1), architecture);
  rank.compile = [&backend, architecture](const std::string& source, const std::string& name) {
    return backend.compile(source, name, architecture);
  };
  rank.step = step_of(host);
  const auto* const names = static_cast<const char* const*>(host.find("hetsynth_kernels"));
  rank.kernels.assign(names, names + *static_cast<const int*>(host.find("hetsynth_kernel_count")));
  rank.events = *static_cast<const int*>(host.find("hetsynth_event_count"));
  rank.largest_tensors = program.largest_tensors;
  rank.ranks = ranks;
  rank.replays = replays;
  return cuda::cuda_device(*backend.api, std::move(rank));
}

}  // namespace

CompiledRanks compile_ranks(const Program& reference, const SpmdProgram& program, const Cluster& cluster,
                            const LaunchOptions& options, LaunchReport* report) {
  const int ranks = program.mesh.device_count();
  HETSYNTH_CHECK(static_cast<size_t>(ranks) == cluster.devices.size(), "one device per rank");
  CompiledRanks out{program.mesh, std::vector<RankProgram>(static_cast<size_t>(ranks)), {}};
  std::vector<RankProgram>& programs = out.programs;
  std::vector<bool> on_gpu;
  for (int rank = 0; rank < ranks; ++rank) {
    programs[static_cast<size_t>(rank)].device = cluster.devices[static_cast<size_t>(rank)];
    on_gpu.push_back(cluster.devices[static_cast<size_t>(rank)].kind == DeviceKind::cuda);
  }
  const std::vector<int> here = ranks_of_process(options.executor, ranks);
  const bool gpus_here = std::ranges::any_of(here, [&](int rank) { return on_gpu[static_cast<size_t>(rank)]; });
  const bool any_gpu = std::ranges::find(on_gpu, true) != on_gpu.end();
  // The libraries are opened only for whom they are there.
  const cuda::Backend* const backend = options.cuda ? options.cuda : gpus_here ? &cuda::this_machine() : nullptr;
  const std::vector<std::string> architectures =
      gpus_here ? cuda::require_cuda(*backend, cluster.devices, here) : std::vector<std::string>{};
  refuse_halves(reference, cluster.devices, architectures);
  const double start = wall_seconds();
  in_parallel(here, [&](int rank) {
    programs[static_cast<size_t>(rank)].layout =
        options.programs ? options.programs->at(static_cast<size_t>(rank))
                         : generate(reference, program, cluster, rank, options.executor.has_marks());
  });
  const double generated = wall_seconds();

  Compiler compiler(options.optimization, backend);
  // Where ranks meet on the host, the host has to be there for each collective.
  const bool replays = std::ranges::find(on_gpu, false) == on_gpu.end() && !options.parts;
  std::shared_ptr<cuda::NcclRanks> gpus;
  if (any_gpu) {
    static const cuda::Nccl no_library;  // a process without GPUs calls none of its functions
    gpus = std::make_shared<cuda::NcclRanks>(backend ? backend->api->nccl : no_library, program.mesh, on_gpu);
    gpus->set_levels(program.hosts, hierarchical_axes(program));
    gpus->set_sending_axes(sending_axes(program));
    if (options.executor.job)
      out.meet = [gpus, job = options.executor.job, process_of = options.executor.process_of] {
        gpus->meet(*job, process_of);
      };
  }
  in_parallel(here, [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    RankProgram& target = programs[r];
    if (on_gpu[r]) {
      require_tensor_cores(target.layout, target.device, architectures[r]);
      target.runs_on = cuda_rank(target.layout, target.device.index, architectures[r], compiler, *backend, gpus,
                                 replays, options.parts ? options.parts->at(r) : cuda::GpuPart{});
    } else {
      target.step = step_of(compiler.host(target.layout.files.front()));
    }
  });
  if (report) {
    report->generate_seconds = generated - start;
    report->compile_seconds = wall_seconds() - generated;
    report->from_cache = compiler.cached();
    report->compiled = compiler.compiled();
  }
  return out;
}

std::unique_ptr<Executor> launch(const Program& reference, const SpmdProgram& program, const Cluster& cluster,
                                 const LaunchOptions& options, LaunchReport* report) {
  CompiledRanks compiled = compile_ranks(reference, program, cluster, options, report);
  if (compiled.meet) compiled.meet();
  auto executor = std::make_unique<Executor>(reference, compiled.mesh, std::move(compiled.programs), options.executor);
  executor->initialise(!options.parameters_follow);
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
