// Attention by tensor cores: which nests get its kernels, that they compute what the interpreter does for heads of
// every size, masked, dropped, grouped and uneven, and what the compiler makes of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cuda_programs.h"
#include "dsl/ir/differentiate.h"
#include "dsl/ir/trace.h"
#include "hetsynth/hetsynth.h"
#include "runtime/jit/kernel_report.h"
#include "runtime/jit/nvrtc.h"
#include "synth/synthesize.h"
#include "tests/support/cuda/cuda_cluster.h"

namespace hetsynth::testing_support {
namespace {

struct Heads {
  int64_t queries = 40, keys = 40, features = 16, values = 16;
  bool causal = false, bias = false;
  double dropout = 0;
  int64_t group = 1, batch = 1;  ///< query heads per key head
  const char* precision = "bf16";
};

void PrintTo(const Heads& h, std::ostream* out) {
  *out << fmt::format("{}_queries_{}_keys_{}_features_{}_values{}{}{}_group_{}", h.queries, h.keys, h.features,
                      h.values, h.causal ? "_causal" : "", h.bias ? "_bias" : "", h.dropout > 0 ? "_dropped" : "",
                      h.group);
}

Program program_of(const Heads& h) {
  Trace trace("heads.cpp");
  run_builder(trace, [&] {
    mixed_precision(h.precision);
    Tensor q = parameter("q", {h.batch, h.queries, 2 * h.group, h.features}, normal(1));
    Tensor k = parameter("k", {h.batch, h.keys, 2, h.features}, normal(1));
    Tensor v = parameter("v", {h.batch, h.keys, 2, h.values}, normal(1));
    AttentionOptions options{.causal = h.causal, .dropout = h.dropout};
    if (h.bias) options.bias = stop_gradient(parameter("bias", {2 * h.group, h.queries, h.keys}, normal(1)));
    Tensor mixed = attention(q, k, v, options);
    Tensor fixed = stop_gradient(parameter("fixed", {h.batch, h.queries, 2 * h.group, h.values}, normal(1)));
    minimize(sum(tanh(mixed) * fixed), SGD{.learning_rate = 0.5, .momentum = 0});
  });
  return differentiate(trace);
}

Cluster gpu_of(const std::string& architecture) {
  Cluster out = cuda_cluster({1});
  out.devices[0].architecture = architecture;
  return out;
}

DeviceProgram generated(const Program& program, const std::string& architecture) {
  const Cluster cluster = gpu_of(architecture);
  return generate(program, single_device_plan(program, cluster).program, cluster, 0);
}

/// Whether some kernel does; the prelude defines how.
bool multiplies_by_tensor_cores(const DeviceProgram& device) {
  const std::string& text = device.files.at(1).text;
  return text.find("mma_bf16(", text.find("extern \"C\" __global__")) != std::string::npos;
}

class TensorAttention : public ::testing::TestWithParam<Heads> {};

TEST_P(TensorAttention, ComputesWhatTheInterpreterComputes) {
  const Program program = program_of(GetParam());
  const Cluster cluster = gpu_of("sm_80");
  const DeviceProgram device = generated(program, "sm_80");
  ASSERT_TRUE(multiplies_by_tensor_cores(device));
  CudaCluster gpu(program, single_device_plan(program, cluster).program, cluster, {device}, 7);
  Bindings leaves = initial_values(program, 7);
  const EvaluationContext context{7, 3};
  const std::vector<Array> wanted = interpret(program, leaves, context);
  // The interpreter rounds weights to bf16 after they are divided by their sum, blocks before that: either is off by
  // 2^-9 of itself at most, and so is the gradient by the scores, which is computed from the result. Sums of weights
  // are 1, values and gradients around 1 to 3.
  constexpr double bound = 6 * 0x1p-8;
  for (Turns turns : {Turns::forward, Turns::shuffled}) {
    for (const auto& [leaf, value] : leaves) gpu.write_leaf(leaf, value);
    gpu.step(context.step, Eager::compute, turns);
    const double loss = wanted[size_t(program.loss)].values[0];
    EXPECT_NEAR(gpu.loss(), loss, bound * (1 + std::abs(loss)));
    for (const Update& update : program.updates) {
      const Array found = gpu.read(update.target);
      const Array& expected = wanted[size_t(update.value)];
      for (size_t i = 0; i < found.values.size(); ++i)
        ASSERT_NEAR(found.values[i], expected.values[i], bound * (1 + std::abs(expected.values[i])))
            << program[update.target].name << " element " << i;
    }
  }
}

// Lengths that are multiples of tiles and not, shorter and longer than one; all sizes that change how many strips and
// tiles there are and whether operands stay in registers.
INSTANTIATE_TEST_SUITE_P(
    Heads, TensorAttention,
    ::testing::Values(Heads{}, Heads{.queries = 128, .keys = 128, .features = 32, .values = 32, .causal = true},
                      Heads{.queries = 150, .keys = 150, .features = 64, .values = 64, .causal = true},
                      Heads{.queries = 20, .keys = 70, .features = 128, .values = 128},
                      Heads{.queries = 70, .keys = 20, .features = 96, .values = 48},
                      Heads{.queries = 33, .keys = 33, .features = 80, .values = 112, .causal = true},
                      Heads{.queries = 130, .keys = 50, .bias = true, .dropout = 0.2},
                      Heads{.queries = 64, .keys = 64, .causal = true, .dropout = 0.25, .group = 3, .batch = 2}),
    [](const auto& info) { return ::testing::PrintToString(info.param); });

TEST(TensorAttentionKernels, AreForSm80AndLaterAndForFeaturesThatSuitThem) {
  for (const char* architecture : {"sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"})
    EXPECT_TRUE(multiplies_by_tensor_cores(generated(program_of({}), architecture))) << architecture;
  for (const char* architecture : {"sm_60", "sm_70", "sm_75", ""})
    EXPECT_FALSE(multiplies_by_tensor_cores(generated(program_of({}), architecture))) << architecture;
  for (const Heads& heads :
       {Heads{.features = 24}, Heads{.values = 8}, Heads{.features = 144}, Heads{.precision = "f32"}}) {
    const DeviceProgram device = generated(program_of(heads), "sm_90");
    EXPECT_FALSE(multiplies_by_tensor_cores(device)) << ::testing::PrintToString(heads);
    EXPECT_NE(device.files.at(1).text.find(" attention_"), std::string::npos) << "by the plain kernels";
  }
}

class TensorAttentionCompiled : public ::testing::TestWithParam<const char*> {};

TEST_P(TensorAttentionCompiled, SpillsNothing) {
  const CudaToolkit& toolkit = cuda_toolkit();
  if (!toolkit.available) GTEST_SKIP() << "no NVRTC here: " << toolkit.problem;
  if (std::ranges::find(toolkit.architectures, GetParam()) == toolkit.architectures.end())
    GTEST_SKIP() << "NVRTC " << toolkit.version() << " does not compile for it";
  for (int64_t features : {16, 64, 80, 128})
    for (bool causal : {true, false}) {
      const Heads heads{.queries = 1024, .keys = 1024, .features = features, .values = features, .causal = causal};
      const DeviceProgram device = generated(program_of(heads), GetParam());
      const CompiledReport report = report_kernels(device.files.at(1).text, device.files.at(1).name, GetParam());
      ASSERT_EQ(report.problem, "");
      int seen = 0;
      for (const KernelReport& kernel : report.kernels) {
        if (kernel.name.rfind("attention_", 0) != 0) continue;
        ++seen;
        EXPECT_EQ(kernel.spilled_bytes + kernel.stack_bytes, 0) << kernel.name << " of " << features << " features";
        EXPECT_LE(kernel.shared_bytes, 48 << 10);
        if (std::getenv("SHOW"))
          fmt::print("{} {} {}: {} registers, {} B\n", GetParam(), features, kernel.name, kernel.registers,
                     kernel.shared_bytes);
      }
      EXPECT_EQ(seen, 3);
    }
}

INSTANTIATE_TEST_SUITE_P(Architectures, TensorAttentionCompiled,
                         ::testing::Values("sm_80", "sm_86", "sm_90", "sm_100", "sm_120"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace hetsynth::testing_support
