// The whole stage: plans that are known to be right emerge, whatever the cluster, and what cannot be done is said.
#include "synth/synthesize.h"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "programs.h"
#include "random_programs.h"

namespace hetsynth {
namespace {

using namespace testing_support;
using testing::HasSubstr;

RC_GTEST_PROP(Synthesize, IsNeverSlowerThanTheBaselinesAndComputesTheReference, ()) {
  Program program = random_program(6);
  Cluster cluster = random_cluster();
  Plan plan = synthesize(program, cluster);
  RC_LOG() << text(plan.program, program);
  RC_ASSERT(plan.prediction.optimal);
  RC_ASSERT(plan.prediction.baselines.size() == 3u);
  for (int dp = 0; dp < 2; ++dp)  // picoseconds of rounding
    RC_ASSERT(plan.prediction.step_seconds <= plan.prediction.baselines[dp].step_seconds + 1e-10);
  RC_ASSERT(compare_with_reference(program, plan.program, 11) == "");
}

TEST(Synthesize, SameInputSamePlan) {
  Program program = mlp(16, {20, 30, 10});
  Cluster cluster = cluster_of_speeds({1e9, 3e9, 2e9});
  EXPECT_EQ(synthesize(program, cluster).program, synthesize(program, cluster).program);
}

TEST(Synthesize, OneDeviceConvertsNothing) {
  Program program = mlp(16, {20, 30, 10});
  Plan plan = synthesize(program, cluster_of_speeds({1e9}));
  for (const Instruction& instruction : plan.program.instructions) EXPECT_EQ(instruction.opcode, Opcode::compute);
  EXPECT_TRUE(plan.program.tables.empty());
}

TEST(Synthesize, DropsDevicesThatDoNotPay) {
  Program program = mlp(64, {32, 64, 32});
  Cluster cluster = cluster_of_speeds({1e9, 1e9, 1e6}, 1e12, 1e-9);
  SynthesisOptions options;
  options.drop_devices = true;
  Plan plan = synthesize(program, cluster, options);
  ASSERT_EQ(plan.devices.size(), 2u);
  EXPECT_EQ(plan.devices[0].name, "device0");
  EXPECT_EQ(plan.devices[1].name, "device1");
  EXPECT_EQ(plan.program.mesh.device_count(), 2);
  EXPECT_LT(plan.prediction.step_seconds, synthesize(program, cluster).prediction.step_seconds);
  EXPECT_EQ(compare_with_reference(program, plan.program, 8), "");
  EXPECT_NO_THROW(check_plan_cluster(plan, cluster));
}

TEST(Synthesize, ASlowLinkLeavesTheFastestDeviceAlone) {
  Program program = mlp(64, {32, 64, 32});
  Cluster cluster = cluster_of_speeds({1e9, 2e9, 1e9}, 1e3, 1);
  SynthesisOptions options;
  options.drop_devices = true;
  Plan plan = synthesize(program, cluster, options);
  ASSERT_EQ(plan.devices.size(), 1u);
  EXPECT_EQ(plan.devices[0].name, "device1");
  EXPECT_EQ(plan.prediction.baselines.size(), 3u);
}

}  // namespace
}  // namespace hetsynth
