// The plans people write by hand: valid, equal to the reference in value, and with the instructions one expects.
#include <gmock/gmock.h>

#include <algorithm>

#include "programs.h"
#include "synth/planner/synthesize.h"

namespace hetsynth {
namespace {

using namespace testing_support;
using testing::ElementsAre;
using testing::HasSubstr;

int count(const SpmdProgram& spmd, Opcode opcode) {
  return int(std::count_if(spmd.instructions.begin(), spmd.instructions.end(),
                           [&](const Instruction& i) { return i.opcode == opcode; }));
}

TEST(Baselines, SingleDevicePlanComputesTheReferenceOnTheFastestDevice) {
  Program program = mlp(8, {6, 10, 4});
  Plan plan = single_device_plan(program, cluster_of_speeds({1e9, 3e9, 2e9}));
  ASSERT_EQ(plan.devices.size(), 1u);
  EXPECT_EQ(plan.devices[0].name, "device1");
  EXPECT_EQ(plan.program.mesh.device_count(), 1);
  EXPECT_EQ(plan.program.instructions.size(), program.nodes.size() - 6);  // two inputs, two weights, two momenta
  EXPECT_EQ(compare_with_reference(program, plan.program, 1), "");
}

TEST(Baselines, DataParallelPlanCutsTheBatchAndReducesEveryGradientOnce) {
  Program program = mlp(8, {6, 10, 4});
  Plan plan = data_parallel_plan(program, cluster_of_speeds({1e9, 1e9, 1e9}), RatioRule::even);
  EXPECT_EQ(count(plan.program, Opcode::all_reduce), 3);  // two gradients and the loss
  EXPECT_EQ(count(plan.program, Opcode::all_gather) + count(plan.program, Opcode::all_to_all) +
                count(plan.program, Opcode::reduce_scatter),
            0);
  ASSERT_EQ(plan.program.tables.size(), 1u);
  EXPECT_THAT(plan.program.tables[0].bounds, ElementsAre(0, 3, 6, 8));
  EXPECT_EQ(compare_with_reference(program, plan.program, 2), "");
}

TEST(Baselines, ProportionalSharesFollowTheSpeeds) {
  Program program = mlp(12, {6, 10, 4});
  Plan plan = data_parallel_plan(program, cluster_of_speeds({3e9, 1e9, 2e9}), RatioRule::proportional);
  ASSERT_EQ(plan.program.tables.size(), 1u);
  EXPECT_THAT(plan.program.tables[0].bounds, ElementsAre(0, 6, 8, 12));
  EXPECT_EQ(compare_with_reference(program, plan.program, 3), "");
}

TEST(Baselines, BatchSmallerThanTheDevicesLeavesSomeWithoutWork) {
  Program program = mlp(2, {6, 10, 4});
  Plan plan = data_parallel_plan(program, cluster_of_speeds({1e9, 1e9, 1e9, 1e9}), RatioRule::even);
  EXPECT_THAT(plan.program.tables[0].bounds, ElementsAre(0, 1, 2, 2, 2));
  EXPECT_EQ(compare_with_reference(program, plan.program, 4), "");
}

TEST(Baselines, TensorParallelPlanCutsWeightsAndNeverTheBatch) {
  Program program = mlp(8, {6, 12, 4});
  Plan plan = tensor_parallel_plan(program, cluster_of_speeds({1e9, 2e9, 1e9}), RatioRule::proportional);
  int products = 0;
  for (const Instruction& i : plan.program.instructions) {
    if (i.opcode != Opcode::compute || i.splits[0].factor < 0) continue;
    EXPECT_NE(program[i.node].space.factors[i.splits[0].factor].name, "b") << program[i.node].name;
    ++products;
  }
  EXPECT_GE(products, 3);  // forward twice and the gradient of the hidden layer
  EXPECT_EQ(compare_with_reference(program, plan.program, 6), "");
}

TEST(Baselines, CollectivesSayWhyTheyAreThere) {
  Program program = mlp(8, {6, 10, 4});
  Plan plan = data_parallel_plan(program, cluster_of_speeds({1e9, 1e9}), RatioRule::even);
  std::string text = hetsynth::text(plan.program, program);
  EXPECT_THAT(text, HasSubstr("d_w1 is partial over dp (each device has its share of b); new_m1 needs it whole"));
}

TEST(Baselines, TooLittleMemoryNamesTheDevice) {
  Program program = mlp(8, {6, 10, 4});
  Cluster cluster = cluster_of_speeds({1e9, 1e9}, 1e9, 1e-6, {1 << 20, 300});
  try {
    data_parallel_plan(program, cluster, RatioRule::even);
    FAIL() << "a plan was found";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::infeasible);
    EXPECT_THAT(error.what(), HasSubstr("data parallelism does not fit into the memory of device device1"));
    EXPECT_THAT(error.what(), HasSubstr("at most 300 B"));
  }
}

}  // namespace
}  // namespace hetsynth
