// Plans of other systems: real programs that compute what the model says, with what each of them is known for, and none
// faster than the planner's.
#include "synth/baselines/peers/peers.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "programs.h"
#include "synth/baselines/peers/layers.h"
#include "synth/baselines/peers/layerwise.h"
#include "synth/baselines/peers/mcmc.h"
#include "synth/baselines/peers/sharded_optimizer.h"
#include "synth/planner/synthesize.h"

namespace hetsynth {
namespace {

using namespace synth;
using namespace testing_support;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A small transformer layer with its loss.
Program transformer() {
  Trace trace("transformer.cpp");
  run_builder(trace, [] {
    auto [tokens, targets] = text_batch(8, 8);
    Tensor table = parameter("table", {256, 16}, normal(0.02));
    Tensor x = embedding(table, tokens);
    auto heads = [&](const char* name) { return einsum("btc,chw->bthw", x, parameter(name, {16, 4, 4}, normal(0.1))); };
    Tensor mixed = reshape(attention(heads("q"), heads("k"), heads("v"), {.causal = true}), {8, 8, 16});
    Tensor h = relu(einsum("btc,cf->btf", x + mixed, parameter("up", {16, 64}, normal(0.1))));
    Tensor y = einsum("btf,fc->btc", h, parameter("down", {64, 16}, normal(0.1)));
    minimize(cross_entropy(einsum("btc,vc->btv", y, table), targets), SGD{.momentum = 0.9});
  });
  return differentiate(trace);
}

Cluster unequal() { return cluster_of_speeds({3e10, 1e10, 1e10, 2e10}, 1e9, 1e-6); }

int count(const Plan& plan, Opcode opcode) {
  return int(std::ranges::count_if(plan.program.instructions, [&](auto& i) { return i.opcode == opcode; }));
}

const Plan& named(const std::vector<PeerPlan>& peers, const std::string& name) {
  for (const PeerPlan& peer : peers)
    if (peer.name == name && peer.plan) return *peer.plan;
  throw InternalError("no plan of " + name);
}

/// Cut or whole, of all leaves of a kind.
int cut_leaves(const Program& program, const Plan& plan, NodeKind kind) {
  return int(std::ranges::count_if(plan.program.leaves, [&](ValueId leaf) {
    const Value& value = plan.program.values[leaf];
    return program[value.node].kind == kind && value.placements[0].kind == Placement::Kind::sharded;
  }));
}

TEST(Peers, AreEquivalentToTheModelAndNeverFasterThanThePlanner) {
  for (const Program& program : {mlp(96, {48, 64, 40}), transformer()})
    for (const Cluster& cluster : {cluster_of_speeds({1e10, 1e10, 1e10, 1e10}), unequal()}) {
      const double own = synthesize(program, cluster).prediction.objective_seconds;
      std::vector<PeerPlan> peers = peer_plans(program, cluster);
      EXPECT_EQ(peers.size(), 9u);
      for (const PeerPlan& peer : peers) {
        ASSERT_TRUE(peer.plan) << peer.name << ": " << peer.why_not;
        EXPECT_EQ(compare_with_reference(program, peer.plan->program, 5), "") << peer.name;
        EXPECT_GE(peer.plan->prediction.objective_seconds, own * (1 - 1e-12)) << peer.name;
      }
    }
}

TEST(Peers, ZeroCutsStatesThenGradientsThenParameters) {
  Program program = mlp(96, {48, 64, 40});
  auto peers = peer_plans(program, cluster_of_speeds({1e10, 1e10, 1e10, 1e10}));
  const Plan &first = named(peers, "ZeRO-1"), &second = named(peers, "ZeRO-2"), &third = named(peers, "ZeRO-3");
  EXPECT_EQ(cut_leaves(program, named(peers, "even data parallel"), NodeKind::state), 0);
  for (const Plan* plan : {&first, &second, &third}) EXPECT_EQ(cut_leaves(program, *plan, NodeKind::state), 2);
  EXPECT_EQ(cut_leaves(program, first, NodeKind::parameter), 0);
  EXPECT_EQ(cut_leaves(program, second, NodeKind::parameter), 0);
  EXPECT_EQ(cut_leaves(program, third, NodeKind::parameter), 2);
  EXPECT_EQ(count(second, Opcode::reduce_scatter), 2);  // the two gradients
  EXPECT_EQ(count(second, Opcode::all_gather), 2);      // the two new parameters
  // Three readers before and after: w1 is read by the forward pass alone, w2 by both.
  EXPECT_EQ(count(third, Opcode::all_gather), 3);
  EXPECT_LT(third.prediction.devices[0].memory_bytes, first.prediction.devices[0].memory_bytes);
}

TEST(Peers, MegatronNeverCutsTheBatchAndHapNeverASumOfTheForwardPass) {
  Program program = transformer();
  auto peers = peer_plans(program, cluster_of_speeds({1e10, 1e10, 1e10, 1e10}, 1e11, 1e-8));
  auto splits = [&](const Plan& plan, auto visit) {
    for (const Instruction& i : plan.program.instructions)
      if (i.opcode == Opcode::compute && i.splits[0].factor >= 0)
        visit(program[i.node], program[i.node].space.factors[i.splits[0].factor]);
  };
  int cut = 0;
  splits(named(peers, "Megatron (tensor and sequence)"), [&](const Node& node, const Factor& factor) {
    EXPECT_NE(factor.name, "b") << node.name;
    ++cut;
  });
  EXPECT_GT(cut, 0);
  cut = 0;
  splits(named(peers, "HAP's rules"), [&](const Node& node, const Factor& factor) {
    if (node.phase != Phase::forward || !is_parameter_product(program, node)) return;
    EXPECT_EQ(factor.kind, FactorKind::parallel) << node.name;
    ++cut;
  });
  EXPECT_GT(cut, 0);
}

TEST(Peers, SayWhyTheyDoNotFit) {
  Program program = mlp(96, {48, 64, 40});
  Cluster cluster = cluster_of_speeds({1e10, 1e10}, 1e9, 1e-6, {20'000, 20'000});
  for (const PeerPlan& peer : peer_plans(program, cluster)) {
    EXPECT_FALSE(peer.plan) << peer.name;
    EXPECT_FALSE(peer.why_not.empty()) << peer.name;
  }
  EXPECT_THAT(peer_plans(program, cluster).front().why_not, HasSubstr("does not fit into the memory of device"));
}

TEST(Peers, TheWalkFindsMoreThanItsStartAndIsTheSameEveryTime) {
  Program program = mlp(8, {64, 512, 64});
  Problem problem(program, cluster_of_speeds({1e9, 1e9, 1e9, 1e9}, 1e10, 1e-7));
  AtShares at(problem, RatioRule::even);
  Choices walked = walked_choices(at), again = walked_choices(at);
  EXPECT_EQ(walked, again);
  auto cost = [&](const Choices& c) { return total_cost(problem, at.conversions, at.shares, c); };
  EXPECT_LT(cost(walked), cost(data_parallel_choices(problem)));
  EXPECT_GE(cost(walked), cost(at.cheapest({})));
}

TEST(Peers, LayersFollowTheProducts) {
  Program program = mlp(8, {6, 10, 4});
  std::vector<int> layers = layers_of(program);
  for (const Node& node : program.nodes) {
    for (const char* mine : {"w1", "z1", "h1", "d_w1", "m1", "new_m1"})
      if (node.name == mine) {
        EXPECT_EQ(layers[node.id], 0) << node.name;
      }
    for (const char* mine : {"w2", "z2", "d_w2", "m2", "new_m2"})
      if (node.name == mine) {
        EXPECT_EQ(layers[node.id], 1) << node.name;
      }
  }
}

/// With one strategy there is nothing to choose; with two the best of both or a mixture.
TEST(Peers, LayerwiseIsNeverWorseThanItsStrategies) {
  Program program = mlp(32, {64, 256, 64, 256});
  Problem problem(program, cluster_of_speeds({1e9, 1e9, 1e9, 1e9}, 1e9, 1e-7));
  AtShares at(problem, RatioRule::even);
  Choices batch = data_parallel_choices(problem), tensor = at.cheapest(tensor_parallel_pins(problem));
  auto cost = [&](const Choices& c) { return total_cost(problem, at.conversions, at.shares, c); };
  const auto layerwise = [&](const std::vector<Choices>& strategies) {
    return LayerProgram(at, strategies, one_stage(problem)).solve();
  };
  EXPECT_EQ(cost(layerwise({batch})), cost(batch));
  EXPECT_EQ(layerwise({tensor}).of, tensor.of);
  EXPECT_LE(cost(layerwise({batch, tensor})), std::min(cost(batch), cost(tensor)));
}

}  // namespace
}  // namespace hetsynth
