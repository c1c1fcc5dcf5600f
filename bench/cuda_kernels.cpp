// The CUDA kernels of the models' training steps as the compiler sees them on every architecture: registers, shared
// memory, spills, accesses of 16 bytes; and how long compiling takes for all of a model's, without and with the cache.
// Needs NVRTC and no GPU. Ends with 1 if a kernel keeps registers or arrays in local memory.
//   bench_cuda_kernels [ARCHITECTURE...]        default: every architecture that NVRTC knows, or Clang in its place
// Prints Markdown, docs/cuda-kernels.md. Each model is compiled once for each architecture: two minutes in all.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "codegen/interface/device_program.h"
#include "dsl/cluster/cluster.h"
#include "dsl/frontend/model.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/build_paths.h"
#include "runtime/jit/kernel_report.h"
#include "runtime/jit/nvrtc.h"
#include "synth/planner/synthesize.h"

namespace {
using namespace hetsynth;

struct Model {
  const char* file;
  std::map<std::string, std::string> settings;
};

const std::vector<Model> models = {
    {"gpt.cpp", {}}, {"gpt.cpp", {{"precision", "bf16"}}}, {"gpt.cpp", {{"precision", "bf16"}, {"width", "256"}}},
    {"mlp.cpp", {}}, {"bert_moe.cpp", {{"size", "tiny"}}}, {"vgg19.cpp", {{"size", "tiny"}}}};

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

/// As generated for a GPU of this architecture: older ones have no tensor cores.
StepText device_program(const Model& model, const std::string& architecture) {
  const auto code = load_model(std::string(HETSYNTH_SOURCE_DIR "/examples/") + model.file);
  const auto trace = code->trace(model.settings);
  const Program reference = differentiate(*trace);
  Cluster cluster = parse_cluster(cluster_text, "one.toml");
  cluster.devices[0].architecture = architecture;
  const DeviceProgram device = generate(reference, single_device_plan(reference, cluster).program, cluster, 0);
  std::string name = model.file;
  for (const auto& [key, value] : model.settings) name += fmt::format(" {}={}", key, value);
  return {name, device.files.at(1).text, count_of(device.files.at(0).text, "if (launch(context")};
}

/// The assembler's words on PTX. No toolkit of today has one for the architectures that Clang compiles for: theirs is
/// read as for the oldest it knows, whose register file is as large. Empty where there is no ptxas.
std::string assemble(const std::string& ptx, const std::filesystem::path& folder) {
  const std::string file = (folder / "kernels.ptx").string(), words = (folder / "words").string();
  std::ofstream(file) << ptx;
  const std::string command =
      fmt::format("ptxas -v -arch={} '{}' -o /dev/null > '{}' 2>&1", cuda_toolkit().architectures.front(), file, words);
  if (std::system(command.c_str()) != 0) return "";
  std::ifstream in(words);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// What a kernel takes at most, on any architecture.
struct Most {
  int least_registers = 255;
  KernelReport kernel;
};

struct Table {
  std::vector<std::string> order;
  std::map<std::string, Most> kernels;
  int spilled = 0;

  void add(const std::vector<KernelReport>& reports) {
    for (const KernelReport& report : reports) {
      if (!kernels.count(report.name)) order.push_back(report.name);
      Most& most = kernels[report.name];
      KernelReport& kernel = most.kernel;
      most.least_registers = std::min(most.least_registers, report.registers);
      kernel.registers = std::max(kernel.registers, report.registers);
      kernel.shared_bytes = std::max(kernel.shared_bytes, report.shared_bytes);
      kernel.spilled_bytes = std::max(kernel.spilled_bytes, report.spilled_bytes + report.stack_bytes);
      spilled += report.spilled_bytes + report.stack_bytes;
    }
  }

  /// Of the PTX, which is much the same for all architectures.
  void add_accesses(std::string_view ptx) {
    std::vector<KernelReport> counted;
    for (const std::string& name : order) counted.push_back({.name = name});
    count_wide_accesses(ptx, counted);
    for (const KernelReport& kernel : counted) {
      kernels[kernel.name].kernel.wide_loads = kernel.wide_loads;
      kernels[kernel.name].kernel.wide_stores = kernel.wide_stores;
    }
  }
};

void line_of(const StepText& program, const std::string& architecture, const std::filesystem::path& folder,
             Table& table) {
  const auto& clang = cuda_toolkit().through_clang;
  const bool through_clang = std::find(clang.begin(), clang.end(), architecture) != clang.end();
  const std::vector<std::string> options =
      through_clang ? std::vector<std::string>{} : std::vector<std::string>{"--ptxas-options=-v"};
  CudaCode code;
  const auto compile = [&] { code = compile_cuda(program.kernels, program.name, architecture, options); };
  const Times cold = times_of(compile);
  if (!code.ok()) throw std::runtime_error(code.log);
  const Times warm = times_of(compile);
  std::vector<KernelReport> kernels = read_assembler_report(through_clang ? assemble(code.cubin, folder) : code.log);
  int most = 0, shared = 0, spilled = 0;
  for (const KernelReport& kernel : kernels) {
    most = std::max(most, kernel.registers);
    shared = std::max(shared, kernel.shared_bytes);
    spilled += kernel.spilled_bytes + kernel.stack_bytes;
  }
  fmt::print("| {} | {}{} | {} | {} | {} | {} B | {} B | {:.2f} s | {:.1f} ms |\n", program.name, architecture,
             through_clang ? " (Clang)" : "", program.launches, kernels.size(), most, shared, spilled, cold.processor,
             warm.wall * 1e3);
  std::fflush(stdout);
  // The assembler reports them in an order of its own.
  const auto place = [&](const KernelReport& kernel) { return program.kernels.find(" " + kernel.name + "("); };
  std::sort(kernels.begin(), kernels.end(),
            [&](const KernelReport& a, const KernelReport& b) { return place(a) < place(b); });
  table.add(kernels);
}

void kernels_of(const StepText& program, const Table& table) {
  fmt::print(
      "\n## The kernels of {}\n\n| kernel | registers | shared memory | spilled | loads of 16 bytes | stores of 16 "
      "bytes |\n|---|---|---|---|---|---|\n",
      program.name);
  for (const std::string& name : table.order) {
    const auto& [least, kernel] = table.kernels.at(name);
    fmt::print("| `{}` | {} | {} B | {} B | {} | {} |\n", name,
               least == kernel.registers ? fmt::format("{}", least) : fmt::format("{} to {}", least, kernel.registers),
               kernel.shared_bytes, kernel.spilled_bytes, kernel.wide_loads, kernel.wide_stores);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (!cuda_toolkit().available) {
    fmt::print(stderr, "nothing is compiled: {}\n", cuda_toolkit().problem);
    return 1;
  }
  std::vector<std::string> architectures(argv + 1, argv + argc);
  if (architectures.empty()) {
    architectures = cuda_toolkit().through_clang;
    architectures.insert(architectures.end(), cuda_toolkit().architectures.begin(), cuda_toolkit().architectures.end());
  }
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("hetsynth-bench-{}", ::getpid());
  std::filesystem::create_directories(folder);
  bool spilled = false;
  try {
    ::setenv("HETSYNTH_CACHE_DIR", (folder / "cache").c_str(), 1);
    fmt::print(
        "NVRTC {}\n\n| model | architecture | launches | kernels | most registers | most shared memory | spilled | "
        "compiled cold (processor) | from the cache (wall) |\n|---|---|---|---|---|---|---|---|---|\n",
        cuda_toolkit().version());
    std::vector<StepText> newest;
    std::vector<Table> tables(models.size());
    for (size_t i = 0; i < models.size(); ++i) {
      StepText program;
      for (const std::string& architecture : architectures) {
        program = device_program(models[i], architecture);
        line_of(program, architecture, folder, tables[i]);
      }
      newest.push_back(program);
      const CudaCode ptx = compile_cuda(program.kernels, program.name, "compute_" + architectures.back().substr(3));
      tables[i].add_accesses(ptx.cubin);
      spilled = spilled || tables[i].spilled > 0;
    }
    for (size_t i = 0; i < models.size(); ++i) kernels_of(newest[i], tables[i]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  std::filesystem::remove_all(folder);
  return spilled ? 1 : 0;
}
