// Every operator sample as CUDA: compiled for GPUs by NVRTC, and executed on the CPU from the same text against the
// float64 interpreter.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cuda_programs.h"
#include "runtime/jit/nvrtc.h"
#include "tests/support/cuda/cuda_cluster.h"

namespace hetsynth::testing_support {
namespace {

/// Largest difference from the reference in units of the bound, with its place.
std::string compare(const Array& found, const Array& expected) {
  // Sums of at most some hundred float32 terms of magnitude 10, through functions whose slope is at most 100.
  constexpr double bound = 3e-5;
  for (size_t i = 0; i < expected.values.size(); ++i) {
    double e = expected.values[i], f = found.values[i];
    if (e == f) continue;
    if (!(std::abs(f - e) <= bound * (1 + std::abs(e)))) return fmt::format("element {}: {} instead of {}", i, f, e);
  }
  return "";
}

void run_and_compare(const SampleProgram& samples, const SpmdProgram& program, const std::vector<double>& speeds) {
  const Program& reference = samples.program;
  EvaluationContext context{77, 3};
  CudaCluster cluster(reference, program, cuda_cluster(speeds), {}, context.seed);
  Bindings leaves;
  for (const auto& [leaf, domain] : samples.domains) {
    leaves[leaf] = random_contents(reference[leaf], domain, 5);
    cluster.write_leaf(leaf, leaves[leaf]);
  }
  std::vector<Array> expected = interpret(reference, leaves, context);
  for (Turns turns : {Turns::forward, Turns::reversed})
    for (Eager eager : {Eager::compute, Eager::communication}) {
      if (turns == Turns::reversed && eager == Eager::communication) continue;
      cluster.step(context.step, eager, turns);
      for (const NamedOutput& output : reference.outputs) {
        EXPECT_EQ(compare(cluster.read(output.node), expected[size_t(output.node)]), "")
            << output.name << " " << text(reference[output.node].space);
      }
    }
}

TEST(CudaSamples, OneRankEqualsTheInterpreter) {
  SampleProgram samples = all_samples();
  ASSERT_GT(samples.program.outputs.size(), 30u);
  run_and_compare(samples, split_samples(samples.program, 1, 0), {1});
}

class CudaSamplesSplit : public ::testing::TestWithParam<int> {};

TEST_P(CudaSamplesSplit, UnevenAndEmptySharesEqualTheInterpreter) {
  SampleProgram samples = all_samples();
  run_and_compare(samples, split_samples(samples.program, 3, GetParam()), {1, 2, 3});
}

INSTANTIATE_TEST_SUITE_P(Variants, CudaSamplesSplit, ::testing::Values(0, 3));

class CudaSamplesCompile : public ::testing::TestWithParam<const char*> {};

TEST_P(CudaSamplesCompile, EveryKernelWithoutWarnings) {
  const CudaToolkit& toolkit = cuda_toolkit();
  if (!toolkit.available) GTEST_SKIP() << "no NVRTC here: " << toolkit.problem;
  for (const auto* list : {&toolkit.architectures, &toolkit.through_clang}) {
    if (std::ranges::find(*list, GetParam()) == list->end()) continue;
    const SampleProgram samples = all_samples();
    const SpmdProgram program = split_samples(samples.program, 3, 1);
    const DeviceProgram device = generate(samples.program, program, cuda_cluster({1, 2, 3}), 2);
    const CudaCode code = compile_cuda(device.files.at(1).text, device.files.at(1).name, GetParam());
    EXPECT_EQ(code.status, CudaCompileStatus::compiled) << code.log;
    EXPECT_EQ(code.log, "");
    return;
  }
  GTEST_SKIP() << "neither NVRTC " << toolkit.version() << " nor Clang with libdevice compiles for it";
}

INSTANTIATE_TEST_SUITE_P(Architectures, CudaSamplesCompile,
                         ::testing::Values("sm_60", "sm_61", "sm_70", "sm_75", "sm_80", "sm_86", "sm_87", "sm_88",
                                           "sm_89", "sm_90", "sm_100", "sm_103", "sm_110", "sm_120", "sm_121"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace hetsynth::testing_support
