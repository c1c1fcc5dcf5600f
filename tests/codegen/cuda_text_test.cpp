// Golden text of a small training step for one of three uneven cuda ranks, and what the text must have everywhere.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/cuda/kernels/prelude.h"
#include "codegen/interface/device_program.h"
#include "cuda_classifier.h"
#include "cuda_programs.h"
#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "synth/planner/synthesize.h"
#include "tests/support/by_host.h"
#include "tests/support/detours.h"
#include "tests/support/golden.h"

namespace hetsynth::testing_support {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

DeviceProgram classifier_program(int rank) {
  Trace trace("classifier.cpp");
  run_builder(trace, classifier);
  Program reference = differentiate(trace);
  Cluster cluster = cuda_cluster({1, 2, 3});
  Plan plan = data_parallel_plan(reference, cluster, RatioRule::proportional);
  return generate(reference, plan.program, cluster, rank);
}

TEST(CudaText, HostOfASmallStep) { testing::expect_golden("cuda_host.cpp", classifier_program(1).files.at(0).text); }

TEST(CudaText, KernelsOfASmallStep) {
  std::string text = classifier_program(1).files.at(1).text, prelude(codegen::cuda::prelude());
  size_t at = text.find(prelude);
  ASSERT_NE(at, std::string::npos);
  testing::expect_golden("cuda_kernels.cu", text.erase(at, prelude.size()));
}

/// What ranks on hosts of two, one and two GPUs call for the first all-to-all and the first broadcast.
TEST(CudaText, CallsOfAHierarchicalExchangeAndBroadcast) {
  Trace trace("classifier.cpp");
  run_builder(trace, classifier);
  const Program reference = differentiate(trace);
  const Cluster cluster = cuda_cluster({1, 2, 1, 2, 1});
  const Plan plan = data_parallel_plan(reference, cluster, RatioRule::proportional);
  const SpmdProgram program = by_host(test::with_detours(reference, plan.program), {2, 1, 2});
  std::string calls;
  for (int rank = 0; rank < 5; ++rank) {
    const std::string text = generate(reference, program, cluster, rank).files.at(0).text;
    for (const char* opcode : {"all_to_all", "broadcast"}) {
      const size_t at = text.find(fmt::format("// hierarchical {} ", opcode));
      ASSERT_NE(at, std::string::npos) << rank << opcode;
      const size_t end = text.rfind('\n', text.find("hetsynth_record", text.find("nccl", at)));
      calls += fmt::format("rank {}:\n  {}\n", rank, text.substr(at, end - at));
    }
  }
  testing::expect_golden("cuda_by_host.txt", calls);
}

TEST(CudaText, IncludesNothingAndIsTheSameEachTime) {
  for (int rank = 0; rank < 3; ++rank) {
    DeviceProgram first = classifier_program(rank), second = classifier_program(rank);
    for (size_t f = 0; f < 2; ++f) {
      EXPECT_EQ(first.files.at(f).text, second.files.at(f).text);
      EXPECT_THAT(first.files.at(f).text, Not(HasSubstr("#include")));
    }
    EXPECT_EQ(first.kind, DeviceKind::cuda);
    EXPECT_EQ(first.architecture, "sm_80");
    EXPECT_THAT(first.files.at(0).text, HasSubstr("classifier.cpp"));
  }
}

TEST(CudaText, EachRankOfAMixedClusterGetsTheSourceOfItsKind) {
  Trace trace("classifier.cpp");
  run_builder(trace, classifier);
  Program reference = differentiate(trace);
  Cluster cluster = cuda_cluster({1, 1});
  cluster.devices[1].kind = DeviceKind::cpu;
  Plan plan = data_parallel_plan(reference, cluster);
  EXPECT_EQ(generate(reference, plan.program, cluster, 0).files.size(), 2u);
  EXPECT_EQ(generate(reference, plan.program, cluster, 1).files.size(), 1u);
}

}  // namespace
}  // namespace hetsynth::testing_support
