// Training throughput of one rank on one core, against what its matrix products alone would allow: the products of a
// step are recorded with their shapes, strides and operands, and repeated without anything between them.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "codegen/cpu/step_text.h"
#include "codegen/interface/abi.h"
#include "codegen/interface/device_program.h"
#include "codegen/passes/lower.h"
#include "dsl/base/error.h"
#include "dsl/frontend/model.h"
#include "dsl/jit/compiled_code.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/build_paths.h"
#include "runtime/abi/abi.h"
#include "runtime/executor.h"
#include "runtime/rank/median.h"
#include "runtime/rank/throttle.h"
#include "runtime/training/progress.h"
#include "synth/planner/synthesize.h"

namespace {

using namespace hetsynth;

struct Product {
  int64_t batch, m, n, k;
  const float *a, *w;
  float* c;
  int64_t a_strides[3], w_strides[3], c_strides[3];
  int accumulate;

  void run() const {
    hetsynth_matmul(batch, m, n, k, a, a_strides[0], a_strides[1], a_strides[2], w, w_strides[0], w_strides[1],
                    w_strides[2], c, c_strides[0], c_strides[1], c_strides[2], accumulate);
  }
  double flops() const { return 2.0 * static_cast<double>(batch * m) * static_cast<double>(n * k); }
};

std::vector<Product> recorded;
bool recording = false;
const char *arena_begin = nullptr, *arena_end = nullptr;

/// Blocks of scores lie on the stack of a kernel, which is gone when its products are repeated.
float* lasting(const float* operand) {
  static std::vector<float> scratch(1 << 20);
  const char* at = reinterpret_cast<const char*>(operand);
  return at >= arena_begin && at < arena_end ? const_cast<float*>(operand) : scratch.data();
}

extern "C" void recording_matmul(int64_t batch, int64_t m, int64_t n, int64_t k, const float* a, int64_t a0, int64_t a1,
                                 int64_t a2, const float* w, int64_t w0, int64_t w1, int64_t w2, float* c, int64_t c0,
                                 int64_t c1, int64_t c2, int accumulate) {
  const Product product{batch, m, n, k, a, w, c, {a0, a1, a2}, {w0, w1, w2}, {c0, c1, c2}, accumulate};
  product.run();
  if (!recording) return;
  recorded.push_back(product);
  recorded.back().a = lasting(a);
  recorded.back().w = lasting(w);
  recorded.back().c = lasting(c);
}

/// `blocks`: attention as nests of blocks, as always; otherwise as its operators, for comparison.
DeviceProgram generated(const Program& program, const SpmdProgram& spmd, const Cluster& cluster, bool blocks) {
  const codegen::Lowered lowered = codegen::lower(program, spmd, 0, {.fuse_attention = blocks});
  DeviceProgram out = codegen::describe(lowered, cluster);
  out.files.push_back({"rank0.cpp", codegen::cpu_source(lowered, cluster)});
  return out;
}

int measure(const std::map<std::string, std::string>& settings, const std::string& text, bool blocks) {
  const auto model = load_model(HETSYNTH_SOURCE_DIR "/examples/gpt.cpp");
  const auto trace = model->trace(settings);
  const Program program = differentiate(*trace);
  const Cluster cluster = local_cluster(1);
  const Plan plan = single_device_plan(program, cluster);

  RankProgram rank{cluster.devices[0], generated(program, plan.program, cluster, blocks), {}};
  const int64_t arena_bytes = rank.layout.arena_bytes;
  std::map<std::string, void*> symbols;
  for (const auto& [name, address] : abi_symbols()) symbols[name] = address;
  symbols["hetsynth_matmul"] = reinterpret_cast<void*>(&recording_matmul);
  const NativeModule module = load_native(rank.layout.files.front().text, {}, symbols);
  auto* const step = module.function<int(HetsynthContext*)>("hetsynth_step");
  bool replay = false;
  std::vector<double> product_seconds;
  // Replayed on the rank's thread, where the step's own products ran.
  rank.step = [&](HetsynthContext* context) {
    arena_begin = context->arena;
    arena_end = arena_begin + arena_bytes;
    if (!replay) return step(context);
    const double start = wall_seconds();
    for (const Product& product : recorded) product.run();
    product_seconds.push_back(wall_seconds() - start);
    return 0;
  };
  std::vector<RankProgram> ranks;
  ranks.push_back(std::move(rank));
  ExecutorOptions options;
  options.threads.threads_per_rank = 1;
  Executor executor(program, plan.program.mesh, std::move(ranks), options);
  executor.initialise();
  const auto data = open_data(program, {text, 0});

  recording = true;
  executor.step(0, *data);
  recording = false;
  std::vector<double> step_seconds;
  for (int64_t i = 1; i <= 9; ++i) {
    replay = i % 2 == 0;  // taking turns: both see the same state of the machine
    const StepReport report = executor.step(i, *data);
    if (!replay) step_seconds.push_back(report.ranks[0].compute_seconds);
  }

  const WorkUnit unit = work_unit(program);
  const double tokens = static_cast<double>(unit.per_step), whole = median(step_seconds),
               products = median(product_seconds);
  double flops = 0;
  for (const Product& product : recorded) flops += product.flops();
  fmt::print("{} parameters, {} tokens per step, {} matrix products with {:.2f} Gflop per step; medians\n",
             program.parameter_count(), unit.per_step, recorded.size(), flops / 1e9);
  fmt::print("whole step            {:8.1f} ms  {:>8} tokens/s  {:6.1f} Gflop/s\n", whole * 1e3,
             text_of_rate(tokens / whole), flops / whole / 1e9);
  fmt::print("matrix products alone {:8.1f} ms  {:>8} tokens/s  {:6.1f} Gflop/s\n", products * 1e3,
             text_of_rate(tokens / products), flops / products / 1e9);
  fmt::print("memory of the rank: {:.1f} MiB (planned {:.1f} MiB)\n", static_cast<double>(arena_bytes) / (1 << 20),
             static_cast<double>(plan.prediction.devices[0].memory_bytes) / (1 << 20));
  fmt::print("share of what the products allow: {:.0f} %\n", 100 * products / whole);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::string> settings{
      {"width", "384"}, {"heads", "6"}, {"layers", "2"}, {"batch", "8"}, {"seq", "128"}};
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    if (equals == std::string::npos) {
      fmt::print(stderr, "usage: {} [name=value ...], options of examples/gpt.cpp, or attention=operators\n", argv[0]);
      return 2;
    }
    settings[argument.substr(0, equals)] = argument.substr(equals + 1);
  }
  // Not an option of the model: attention=operators stores the scores.
  const auto attention = settings.extract("attention");
  const bool blocks = attention.empty() || attention.mapped() != "operators";
  try {
    return measure(settings, "/usr/share/common-licenses", blocks);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
