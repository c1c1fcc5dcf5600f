// Expert parallelism is found, not asked for: experts cut over the devices, tokens exchanged by all-to-alls.
#include <gmock/gmock.h>

#include <algorithm>

#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "programs.h"
#include "synth/planner/synthesize.h"

namespace hetsynth {
namespace {

using namespace testing_support;

/// A layer of experts behind a shared projection; groups of tokens in dimension 0.
Program mixture(int64_t groups, int64_t tokens, int64_t experts, int64_t width, int64_t hidden) {
  Trace trace("mixture.cpp");
  run_builder(trace, [=] {
    auto [samples, labels] = synthetic_batch(groups, tokens * width, 8);
    Tensor x = relu(matmul(reshape(samples, {groups, tokens, width}), parameter("in", {width, width}, normal(0.1))));
    Routing routing = top2_gating(matmul(x, parameter("gate", {width, experts}, normal(0.1))));
    Tensor queues = expert_dispatch(x, routing);
    Tensor up = parameter("up", {experts, width, hidden}, normal(0.1));
    Tensor down = parameter("down", {experts, hidden, width}, normal(0.1));
    Tensor answers = einsum("gepf,efc->gepc", relu(einsum("gepc,ecf->gepf", queues, up)), down);
    Tensor out = expert_combine(answers, routing);
    Tensor logits = matmul(mean(out, 1), parameter("head", {width, 8}, normal(0.1)));
    minimize(cross_entropy(logits, labels) + 0.01 * routing.balance_loss, SGD{});
  });
  return differentiate(trace);
}

const Placement& kept(const Program& program, const Plan& plan, const std::string& name) {
  for (ValueId leaf : plan.program.leaves)
    if (program[plan.program.values[leaf].node].name == name) return plan.program.values[leaf].placements[0];
  throw InternalError("no leaf " + name);
}

int64_t all_to_alls(const Plan& plan) {
  return std::count_if(plan.program.instructions.begin(), plan.program.instructions.end(),
                       [](const Instruction& i) { return i.opcode == Opcode::all_to_all; });
}

TEST(ExpertParallelism, ManyExpertsAreCutAndTokensTravelByAllToAll) {
  Program program = mixture(16, 32, 16, 64, 256);
  Plan plan = synthesize(program, cluster_of_speeds({1e10, 1e10, 1e10, 1e10}, 1e9, 1e-6));
  EXPECT_TRUE(plan.prediction.optimal);
  for (const char* weight : {"up", "down"}) {
    EXPECT_EQ(kept(program, plan, weight).kind, Placement::Kind::sharded) << weight;
    EXPECT_EQ(kept(program, plan, weight).dim, 0) << weight;
    for (const Instruction& i : plan.program.instructions) {
      const bool travels = i.opcode == Opcode::all_gather && program[plan.program.values[i.result].node].name == weight;
      EXPECT_FALSE(travels) << weight;
    }
  }
  // Forward: to the experts and back; backward: the same for their gradients. What the experts were given is kept.
  EXPECT_GE(all_to_alls(plan), 4);
  for (const BaselinePrediction& baseline : plan.prediction.baselines)
    EXPECT_LT(plan.prediction.step_seconds, 0.95 * baseline.step_seconds) << baseline.name;
}

/// Where each message to another host takes long, tokens go through one device of every host.
TEST(ExpertParallelism, TokensForOtherHostsTravelTogether) {
  const Program program = mixture(16, 32, 16, 64, 256);
  Cluster cluster = cluster_of_speeds(std::vector<double>(8, 1e9), 1e10, 1e-6);
  cluster.hosts.resize(2, cluster.hosts[0]);
  for (size_t d = 4; d < 8; ++d) cluster.devices[d].host = 1;
  cluster.between = {1e9, 1e-3};
  const Plan plan = synthesize(program, cluster);
  EXPECT_GE(all_to_alls(plan), 4);
  for (const Instruction& i : plan.program.instructions)
    if (i.opcode == Opcode::all_to_all) {
      EXPECT_EQ(i.realisation, Realisation::hierarchical);
    }
  EXPECT_EQ(plan.program.hosts, (std::vector<int>{0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_LE(plan.prediction.lower_bound_seconds, plan.prediction.objective_seconds);
  EXPECT_EQ(compare_with_reference(program, plan.program, 3), "");
}

TEST(ExpertParallelism, UnevenDevicesComputeWhatOneDoes) {
  Program program = mixture(6, 8, 5, 4, 6);
  Plan plan = synthesize(program, cluster_of_speeds({3e8, 1e8, 2e8}, 1e10, 1e-9));
  EXPECT_EQ(kept(program, plan, "up").kind, Placement::Kind::sharded);
  EXPECT_GE(all_to_alls(plan), 1);
  EXPECT_EQ(compare_with_reference(program, plan.program, 3), "");
}

}  // namespace
}  // namespace hetsynth
