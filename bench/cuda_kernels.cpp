// The CUDA kernels of a model's training step as the compiler sees them: registers, shared memory, spills, accesses of
// 16 bytes; and how long NVRTC takes for all of them, without and with its cache. Needs NVRTC and no GPU.
//   bench_cuda_kernels [ARCHITECTURE...]        default: every architecture that NVRTC knows
// Prints Markdown, docs/cuda-kernels.md.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "codegen/device_program.h"
#include "dsl/frontend/model.h"
#include "dsl/ir/differentiate.h"
#include "dsl/spmd/cluster.h"
#include "hetsynth/build_paths.h"
#include "runtime/jit/kernel_report.h"
#include "runtime/jit/nvrtc.h"
#include "synth/synthesize.h"

namespace {
using namespace hetsynth;

struct Model {
  const char* file;
  std::map<std::string, std::string> settings;
};

const std::vector<Model> models = {
    {"gpt.cpp", {}}, {"mlp.cpp", {}}, {"bert_moe.cpp", {{"size", "tiny"}}}, {"vgg19.cpp", {{"size", "tiny"}}}};

const char* cluster_text = R"(name = "one"
[[host]]
  [[host.device]]
  model = "A100"
)";

struct Times {
  double processor = 0, wall = 0;
};

template <class Work>
Times times_of(const Work& work) {
  const std::clock_t processor = std::clock();
  const auto wall = std::chrono::steady_clock::now();
  work();
  return {double(std::clock() - processor) / CLOCKS_PER_SEC,
          std::chrono::duration<double>(std::chrono::steady_clock::now() - wall).count()};
}

struct StepText {
  std::string name, kernels;
  size_t launches = 0;
};

size_t count_of(const std::string& text, const std::string& word) {
  size_t out = 0;
  for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += word.size()) ++out;
  return out;
}

StepText device_program(const Model& model) {
  const auto code = load_model(std::string(HETSYNTH_SOURCE_DIR "/examples/") + model.file);
  const auto trace = code->trace(model.settings);
  const Program reference = differentiate(*trace);
  const Cluster cluster = parse_cluster(cluster_text, "one.toml");
  const DeviceProgram device = generate(reference, single_device_plan(reference, cluster).program, cluster, 0);
  return {model.file, device.files.at(1).text, count_of(device.files.at(0).text, "if (launch(context")};
}

void summary(const std::vector<StepText>& programs, const std::vector<std::string>& architectures) {
  fmt::print(
      "| model | architecture | launches | kernels | most registers | most shared memory | spilled | compiled cold "
      "(processor) | from the cache (wall) |\n|---|---|---|---|---|---|---|---|---|\n");
  for (const StepText& program : programs)
    for (const std::string& architecture : architectures) {
      CudaCode code;
      const Times cold = times_of([&] { code = compile_cuda(program.kernels, program.name, architecture); });
      if (!code.ok()) throw std::runtime_error(code.log);
      const Times warm = times_of([&] { code = compile_cuda(program.kernels, program.name, architecture); });
      const CompiledReport report = report_kernels(program.kernels, program.name, architecture);
      int registers = 0, shared = 0, spilled = 0;
      for (const KernelReport& kernel : report.kernels) {
        registers = std::max(registers, kernel.registers);
        shared = std::max(shared, kernel.shared_bytes);
        spilled += kernel.spilled_bytes + kernel.stack_bytes;
      }
      fmt::print("| {} | {} | {} | {} | {} | {} B | {} B | {:.2f} s | {:.1f} ms |\n", program.name, architecture,
                 program.launches, report.kernels.size(), registers, shared, spilled, cold.processor, warm.wall * 1e3);
      std::fflush(stdout);
    }
}

void kernels_of(const StepText& program, const std::string& architecture) {
  fmt::print(
      "\n## The kernels of {} on {}\n\n| kernel | registers | shared memory | spilled | loads of 16 bytes | stores "
      "of 16 bytes |\n|---|---|---|---|---|---|\n",
      program.name, architecture);
  for (const KernelReport& kernel : report_kernels(program.kernels, program.name, architecture).kernels)
    fmt::print("| `{}` | {} | {} B | {} B | {} | {} |\n", kernel.name, kernel.registers, kernel.shared_bytes,
               kernel.spilled_bytes + kernel.stack_bytes, kernel.wide_loads, kernel.wide_stores);
}

}  // namespace

int main(int argc, char** argv) {
  if (!cuda_toolkit().available) {
    fmt::print(stderr, "nothing is compiled: {}\n", cuda_toolkit().problem);
    return 1;
  }
  std::vector<std::string> architectures(argv + 1, argv + argc);
  if (architectures.empty()) architectures = cuda_toolkit().architectures;
  const auto cache = std::filesystem::temp_directory_path() / fmt::format("hetsynth-bench-{}", ::getpid());
  try {
    std::vector<StepText> programs;
    for (const Model& model : models) programs.push_back(device_program(model));
    ::setenv("HETSYNTH_CACHE_DIR", cache.c_str(), 1);
    fmt::print("NVRTC {}\n\n", cuda_toolkit().version());
    summary(programs, architectures);
    kernels_of(programs.front(), architectures.back());
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  std::filesystem::remove_all(cache);
  return 0;
}
