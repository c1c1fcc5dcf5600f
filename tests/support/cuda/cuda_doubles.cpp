#include "tests/support/cuda/cuda_doubles.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "tests/support/cuda/double_machine.h"

namespace hetsynth::testing_support {
namespace {

DoubleMachine* the_machine = nullptr;

/// What stands for machine code is the text itself: it is compiled for the CPU when it is loaded.
CudaCode take_text(const std::string& source, const std::string&, const std::string&) {
  CudaCode code;
  code.status = CudaCompileStatus::compiled;
  code.cubin = source;
  return code;
}

}  // namespace

CudaToolkit MachineOptions::emulated_toolkit() {
  CudaToolkit out;
  out.available = true;
  out.major = 13;
  out.architectures = {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"};
  return out;
}

DoubleMachine::DoubleMachine(MachineOptions given) : options(std::move(given)), nccl(make_nccl()) {
  for (int gpu = 0; gpu < options.gpus; ++gpu) gpus.push_back(std::make_unique<Gpu>(gpu, options.memory_bytes));
  api.has_driver = options.has_driver, api.has_nccl = options.has_nccl, api.has_cublas = options.has_cublas;
  api.has_cudnn = options.has_cudnn;
  api.cublas_path = "libcublasLt.so of doubles", api.nccl_path = "libnccl.so.2 of doubles";
  api.nccl_release = options.nccl_release;
  if (!api.has_driver) api.driver_problem = "libcuda.so.1: cannot open shared object file";
  if (!api.has_nccl) api.nccl_problem = "libnccl.so.2: cannot open shared object file";
  if (!api.has_cublas) api.cublas_problem = "libcublasLt.so.13: cannot open shared object file";
  if (!api.has_cudnn) api.cudnn_problem = "no cuDNN: libcudnn.so.9: cannot open shared object file";
  fill_driver(api.driver);
  fill_nccl(api.nccl);
  fill_cublas(api.cublas);
  fill_cudnn(api.cudnn);
  backend = {&api, options.toolkit, take_text};
}

DoubleMachine::~DoubleMachine() {
  for (const auto& gpu : gpus)
    for (Event* event : gpu->events) delete event;
}

DoubleMachine& DoubleMachine::current() { return *the_machine; }

CudaDoubles::CudaDoubles(MachineOptions options) {
  if (the_machine) throw std::runtime_error("one machine of doubles at a time");
  machine_ = std::make_unique<DoubleMachine>(std::move(options));
  the_machine = machine_.get();
}

CudaDoubles::~CudaDoubles() { the_machine = nullptr; }

const cuda::Backend& CudaDoubles::backend() const { return machine_->backend; }
MachineOptions& CudaDoubles::options() { return machine_->options; }

char* CudaDoubles::arena(int gpu) const { return machine_->gpus.at(size_t(gpu))->memory.first(); }

std::vector<std::string> CudaDoubles::take_collectives(int gpu) {
  return std::exchange(machine_->gpus.at(size_t(gpu))->collectives, {});
}

void CudaDoubles::poison(int gpu, int64_t offset_bytes, int64_t bytes) {
  machine_->gpus.at(size_t(gpu))->memory.poison(arena(gpu) + offset_bytes, size_t(bytes));
}

std::string CudaDoubles::left_behind() const {
  std::string out = testing_support::left_behind(*machine_->nccl);
  for (const auto& gpu : machine_->gpus) {
    const auto note = [&](size_t count, const char* what) {
      if (count) out += fmt::format("{}GPU {}: {} {}", out.empty() ? "" : "; ", gpu->ordinal, count, what);
    };
    note(gpu->memory.allocations(), "allocations");
    note(gpu->streams.size(), "streams");
    note(gpu->events.size(), "events");
    note(size_t(gpu->contexts) + gpu->greens.size(), "contexts");
    note(size_t(gpu->modules), "modules");
    note(size_t(gpu->pinned), "pinned buffers");
    note(size_t(gpu->graphs), "graphs");
    note(size_t(gpu->handles), "handles of cuDNN");
  }
  if (const int descriptors = machine_->descriptors)
    out += fmt::format("{}{} descriptors of cuDNN", out.empty() ? "" : "; ", descriptors);
  return out;
}

}  // namespace hetsynth::testing_support
