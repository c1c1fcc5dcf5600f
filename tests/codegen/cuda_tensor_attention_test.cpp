// Attention by tensor cores: which nests get its kernels, that they compute what the interpreter does, that what is
// wrong with them is seen, and what the compiler makes of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "attention_heads.h"
#include "codegen/cuda/attention/tensor_attention.h"
#include "cuda_programs.h"
#include "runtime/jit/kernel_report.h"
#include "runtime/jit/nvrtc.h"
#include "synth/planner/synthesize.h"
#include "tests/support/cuda/cuda_cluster.h"

namespace hetsynth::testing_support {
namespace {

Cluster gpu_of(const std::string& architecture) {
  Cluster out = cuda_cluster({1});
  out.devices[0].architecture = architecture;
  return out;
}

DeviceProgram generated(const Program& program, const std::string& architecture) {
  const Cluster cluster = gpu_of(architecture);
  return generate(program, single_device_plan(program, cluster).program, cluster, 0);
}

bool multiplies_by_tensor_cores(const DeviceProgram& device) {
  return codegen::cuda::needs_tensor_cores(device.files.at(1).text);
}

/// The largest difference of a parameter after a step on doubles from the interpreter's, of 1 + its magnitude; infinite
/// where the doubles notice something or what came out is no number.
double largest_error(const Program& program, const DeviceProgram& device, Turns turns) {
  const Cluster cluster = gpu_of("sm_80");
  const Bindings leaves = initial_values(program, 7);
  const EvaluationContext context{7, 3};
  const std::vector<Array> wanted = interpret(program, leaves, context);
  double out = 0;
  try {
    CudaCluster gpu(program, single_device_plan(program, cluster).program, cluster, {device}, 7);
    for (const auto& [leaf, value] : leaves) gpu.write_leaf(leaf, value);
    gpu.step(context.step, Eager::compute, turns);
    for (const Update& update : program.updates) {
      const Array found = gpu.read(update.target);
      const Array& expected = wanted[size_t(update.value)];
      for (size_t i = 0; i < found.values.size(); ++i) {
        const double error = std::abs(found.values[i] - expected.values[i]) / (1 + std::abs(expected.values[i]));
        out = error <= out ? out : std::isnan(error) ? INFINITY : error;
      }
    }
  } catch (const std::exception&) {
    return INFINITY;
  }
  return out;
}

class TensorAttention : public ::testing::TestWithParam<Heads> {};

TEST_P(TensorAttention, ComputesWhatTheInterpreterComputes) {
  const Program program = program_of(GetParam());
  const DeviceProgram device = generated(program, "sm_80");
  ASSERT_TRUE(multiplies_by_tensor_cores(device));
  for (Turns turns : {Turns::forward, Turns::shuffled})
    EXPECT_LE(largest_error(program, device, turns), attention_bound(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Heads, TensorAttention, ::testing::ValuesIn(heads_for_tensor_cores()),
                         [](const auto& info) { return text(info.param); });

TEST(TensorAttentionKernels, AreForGpusAndFeaturesThatSuitThem) {
  for (const char* architecture : {"sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"})
    EXPECT_TRUE(multiplies_by_tensor_cores(generated(program_of({}), architecture))) << architecture;
  for (const char* architecture : {"sm_60", "sm_70", "sm_75", ""})
    EXPECT_FALSE(multiplies_by_tensor_cores(generated(program_of({}), architecture))) << architecture;
  for (const char* architecture : {"sm_75", "sm_80", "sm_120"})
    EXPECT_TRUE(multiplies_by_tensor_cores(generated(program_of({.precision = "fp16"}), architecture))) << architecture;
  for (const char* architecture : {"sm_60", "sm_70", ""})
    EXPECT_FALSE(multiplies_by_tensor_cores(generated(program_of({.precision = "fp16"}), architecture)))
        << architecture;
  for (const Heads& heads :
       {Heads{.features = 24}, Heads{.values = 8}, Heads{.features = 144}, Heads{.precision = "f32"}}) {
    const DeviceProgram device = generated(program_of(heads), "sm_90");
    EXPECT_FALSE(multiplies_by_tensor_cores(device)) << text(heads);
    EXPECT_NE(device.files.at(1).text.find(" attention_"), std::string::npos) << "by the plain kernels";
  }
}

// ---- seeded faults ----

/// Several tiles on either side, and rows that are hidden in part.
const Program& masked() {
  static const Program program = program_of({.queries = 130, .keys = 130, .causal = true});
  return program;
}

/// The tensor-core kernels, by the places where their texts begin.
std::vector<size_t> kernels_in(const std::string& text) {
  std::vector<size_t> out;
  for (size_t at = text.find(") attention_"); at != std::string::npos; at = text.find(") attention_", at + 1))
    out.push_back(at);
  return out;
}

TEST(TensorAttentionFaults, EveryBarrierIsNeeded) {
  const DeviceProgram device = generated(masked(), "sm_80");
  const std::string &text = device.files.at(1).text, barrier = "__syncthreads();";
  int tried = 0;
  for (size_t kernel : kernels_in(text)) {
    const size_t end = text.find("\n}\n", kernel);
    for (size_t at = text.find(barrier, kernel); at < end; at = text.find(barrier, at + 1)) {
      DeviceProgram mutant = device;
      mutant.files.at(1).text.erase(at, barrier.size());
      double worst = 0;
      for (Turns turns : {Turns::forward, Turns::reversed})
        worst = std::max(worst, largest_error(masked(), mutant, turns));
      EXPECT_GT(worst, bf16_attention_bound) << text.substr(at - 300, 400);
      ++tried;
    }
  }
  EXPECT_EQ(tried, 9) << "three of each kernel";
}

struct Fault {
  const char *name, *from, *to;
};

class TensorAttentionFault : public ::testing::TestWithParam<Fault> {};

/// Everywhere in each of the kernels that it can happen in.
TEST_P(TensorAttentionFault, IsSeen) {
  const Fault& fault = GetParam();
  const std::string from = fault.from, to = fault.to;
  const DeviceProgram device = generated(masked(), "sm_80");
  const std::string& text = device.files.at(1).text;
  int tried = 0;
  for (size_t kernel : kernels_in(text)) {
    DeviceProgram mutant = device;
    std::string& wrong = mutant.files.at(1).text;
    for (size_t at = wrong.find(from, kernel); at < wrong.find("\n}\n", kernel); at = wrong.find(from, at + to.size()))
      wrong.replace(at, from.size(), to);
    if (wrong == text) continue;
    EXPECT_GT(largest_error(masked(), mutant, Turns::forward), bf16_attention_bound) << text.substr(kernel, 60);
    ++tried;
  }
  EXPECT_GT(tried, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Seeded, TensorAttentionFault,
    ::testing::Values(Fault{"left_operands_of_another_strip", "[warp * ", "[0 * "},
                      Fault{"the_same_panel_twice", "right + 4);", "right);"},
                      Fault{"a_tile_of_rows_by_columns", "load_right_by_rows(", "load_right("},
                      Fault{"another_stride", "+ deep * 16, 24);", "+ deep * 16, 16);"},
                      Fault{"half_of_a_fragment", "panel % 2 * 4 + 2, ", "panel % 2 * 4 + 0, "},
                      Fault{"the_mask_hides_the_diagonal", "(at_t < at_s ?", "(at_t < at_s + 1 ?"},
                      Fault{"the_mask_shows_one_more", "(at_t < at_s ?", "(at_t < at_s - 1 ?"},
                      Fault{"the_mask_is_left_out_too_early", " <= row_begin + ", " - 64 <= row_begin + "},
                      Fault{"a_tile_too_few", "? seen : ", "? seen - 64 : "},
                      Fault{"rows_of_the_other_half", "quad + cell / 2 * 8", "quad + cell / 2 * 4"},
                      Fault{"sums_are_not_rescaled", "*= scale;", "*= 1.0f;"},
                      Fault{"totals_of_a_lane", "= lanes4_sum(", "= ("}),
    [](const auto& info) { return std::string(info.param.name); });

// ---- compiled ----

struct Target {
  const char *architecture, *precision;
};

class TensorAttentionCompiled : public ::testing::TestWithParam<Target> {};

TEST_P(TensorAttentionCompiled, SpillsNothing) {
  const CudaToolkit& toolkit = cuda_toolkit();
  if (!toolkit.available) GTEST_SKIP() << "no NVRTC here: " << toolkit.problem;
  const std::string architecture = GetParam().architecture;
  if (std::ranges::find(toolkit.architectures, architecture) == toolkit.architectures.end())
    GTEST_SKIP() << "NVRTC " << toolkit.version() << " does not compile for it";
  for (int64_t features : {16, 64, 80, 128})
    for (bool causal : {true, false}) {
      const Heads heads{.queries = 1024,
                        .keys = 1024,
                        .features = features,
                        .values = features,
                        .causal = causal,
                        .dropout = causal ? 0 : 0.1,
                        .precision = GetParam().precision};
      const DeviceProgram device = generated(program_of(heads), architecture);
      const CompiledReport report = report_kernels(device.files.at(1).text, device.files.at(1).name, architecture);
      ASSERT_EQ(report.problem, "");
      int seen = 0;
      for (const KernelReport& kernel : report.kernels) {
        if (kernel.name.rfind("attention_", 0) != 0) continue;
        ++seen;
        // Half as deep products leave fewer registers in the widest kernel of sm_75.
        const int64_t spilled = architecture == "sm_75" && features == 128 ? 128 : 0;
        EXPECT_LE(kernel.spilled_bytes + kernel.stack_bytes, spilled) << kernel.name << " of " << text(heads);
        EXPECT_LE(kernel.shared_bytes, 48 << 10);
      }
      EXPECT_EQ(seen, 3);
    }
}

INSTANTIATE_TEST_SUITE_P(Architectures, TensorAttentionCompiled,
                         ::testing::Values(Target{"sm_80", "bf16"}, Target{"sm_86", "bf16"}, Target{"sm_90", "bf16"},
                                           Target{"sm_100", "bf16"}, Target{"sm_120", "bf16"}, Target{"sm_75", "fp16"},
                                           Target{"sm_80", "fp16"}, Target{"sm_90", "fp16"}),
                         [](const auto& info) {
                           return std::string(info.param.architecture) + "_" + info.param.precision;
                         });

}  // namespace
}  // namespace hetsynth::testing_support
