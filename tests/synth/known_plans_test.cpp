// Plans that people found by hand emerge where they are known to be right.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "programs.h"
#include "synth/planner/synthesize.h"

namespace hetsynth {
namespace {

using namespace testing_support;
using ::testing::HasSubstr;

const Placement& kept(const Program& program, const Plan& plan, const std::string& name) {
  for (ValueId leaf : plan.program.leaves)
    if (program[plan.program.values[leaf].node].name == name) return plan.program.values[leaf].placements[0];
  throw InternalError("no leaf " + name);
}

/// Letter of the factor an operator is split by; "" if it is not.
std::string split_of(const Program& program, const Plan& plan, const std::string& name) {
  for (const Instruction& i : plan.program.instructions)
    if (i.opcode == Opcode::compute && program[i.node].name == name)
      return i.splits[0].factor < 0 ? "" : program[i.node].space.factors[i.splits[0].factor].name;
  throw InternalError("no operator " + name);
}

int count(const Program& program, const Plan& plan, Opcode opcode, const std::string& name) {
  return int(
      std::count_if(plan.program.instructions.begin(), plan.program.instructions.end(), [&](const Instruction& i) {
        return i.opcode == opcode && program[plan.program.values[i.result].node].name == name;
      }));
}

TEST(KnownPlans, ModerateBatchIsDataParallelWithShardedOptimizer) {
  Program program = mlp(4096, {64, 128, 64});
  Plan plan = synthesize(program, cluster_of_speeds({1e11, 1e11, 1e11, 1e11}, 1e9, 1e-6));
  EXPECT_EQ(split_of(program, plan, "z1"), "b");
  EXPECT_EQ(split_of(program, plan, "d_w1"), "b");
  EXPECT_EQ(kept(program, plan, "m1").kind, Placement::Kind::sharded);  // ZeRO-1
  EXPECT_EQ(count(program, plan, Opcode::reduce_scatter, "d_w1"), 1);
  EXPECT_EQ(count(program, plan, Opcode::all_reduce, "d_w1"), 0);
}

/// Samples over all devices, parameters and states cut within hosts or over all of them, gradients scattered within
/// hosts before they cross (hybrid sharding, as FSDP calls it), where links between hosts are slow.
TEST(KnownPlans, SlowLinksBetweenHostsMakeHybridSharding) {
  const Program program = mlp(16384, {512, 512, 512, 512});
  Cluster cluster = cluster_of_speeds(std::vector<double>(8, 1e12), 2e10, 1e-6);
  cluster.hosts.resize(2, cluster.hosts[0]);
  for (size_t d = 4; d < 8; ++d) cluster.devices[d].host = 1;
  cluster.between = {1e9, 1e-5};
  SynthesisOptions options;
  options.pins.mesh = {2, 4};  // one axis adds up to more, but unfolds as fast with hierarchical collectives
  const Plan plan = synthesize(program, cluster, options);
  ASSERT_EQ(plan.program.mesh.axes.size(), 2u);
  for (const Instruction& i : plan.program.instructions) {
    if (i.opcode == Opcode::compute && program[i.node].name == "z1") {
      const Space& space = program[i.node].space;
      EXPECT_EQ(space.factors[size_t(i.splits[0].factor)].name, "b");
      EXPECT_EQ(i.splits[0].factor, i.splits[1].factor);
    }
  }
  // The gradient crosses hosts in shares.
  const auto node = [&](ValueId v) { return program[plan.program.values[size_t(v)].node].name; };
  std::vector<std::pair<Opcode, int>> moves;
  for (const Instruction& i : plan.program.instructions)
    if (i.opcode != Opcode::compute && node(i.result) == "d_w2") moves.push_back({i.opcode, i.axis});
  ASSERT_GE(moves.size(), 2u);
  EXPECT_EQ(moves[0], (std::pair{Opcode::reduce_scatter, 1}));
  EXPECT_EQ(moves[1], (std::pair{Opcode::reduce_scatter, 0}));
  options.pins.mesh = {};
  EXPECT_GT(synthesize(program, cluster, options).prediction.objective_seconds, plan.prediction.objective_seconds);
}

TEST(KnownPlans, TinyBatchOnACheapLinkPairsColumnsAndRows) {
  Program program = mlp(2, {128, 2048, 128});
  Plan plan = synthesize(program, cluster_of_speeds({1e9, 1e9, 1e9, 1e9}, 1e11, 1e-7));
  EXPECT_EQ(split_of(program, plan, "z1"), "n");  // columns of the first weight
  EXPECT_EQ(split_of(program, plan, "z2"), "k");  // rows of the second
  EXPECT_EQ(kept(program, plan, "w1"), Placement::sharded(1, kept(program, plan, "w1").table));
  EXPECT_EQ(kept(program, plan, "w2"), Placement::sharded(0, kept(program, plan, "w1").table));
  EXPECT_EQ(count(program, plan, Opcode::all_gather, "w1") + count(program, plan, Opcode::all_gather, "w2"), 0);
  EXPECT_EQ(count(program, plan, Opcode::all_gather, "h1"), 0);
}

TEST(KnownPlans, LargeVocabularyIsCutInLossAndEmbedding) {
  Trace trace("vocabulary.cpp");
  run_builder(trace, [] {
    auto [tokens, targets] = text_batch(4, 4);
    Tensor table = parameter("table", {512, 16}, normal(0.02));
    Tensor logits = einsum("btc,vc->btv", relu(embedding(table, tokens)), table);
    minimize(cross_entropy(logits, targets), SGD{});
  });
  Program program = differentiate(trace);
  Plan plan = synthesize(program, cluster_of_speeds({1e9, 1e9, 1e9, 1e9}, 1e9, 1e-7));
  Placement table = kept(program, plan, "table");
  EXPECT_EQ(table.kind, Placement::Kind::sharded);
  EXPECT_EQ(table.dim, 0);
  bool maxima =
      std::any_of(plan.program.instructions.begin(), plan.program.instructions.end(),
                  [](const Instruction& i) { return i.opcode == Opcode::all_reduce && i.reduce == ReduceOp::max; });
  EXPECT_TRUE(maxima) << text(plan.program, program);
  EXPECT_EQ(count(program, plan, Opcode::all_gather, "table"), 0);
  EXPECT_EQ(compare_with_reference(program, plan.program, 3), "");
}

Plan pinned_plan(const Program& program, const Cluster& cluster, const std::map<std::string, std::string>& placements) {
  SynthesisOptions options;
  for (const auto& [name, placement] : placements) options.pins.placements.push_back({name, placement});
  return synthesize(program, cluster, options);
}

/// Between Megatron's pairs of products the elementwise work is cut along the tokens: partial sums are scattered, not
/// summed everywhere, and gathered for the next pair (sequence parallelism, Korthikanti et al. 2022).
TEST(KnownPlans, BetweenPairedProductsTokensAreCut) {
  Program program = mlp(256, {64, 256, 64, 256, 64});
  const Plan plan = pinned_plan(program, cluster_of_speeds({1e10, 1e10, 1e10, 1e10}, 1e9, 1e-7),
                                {{"w1", "sharded(1)"},
                                 {"w2", "sharded(0)"},
                                 {"w3", "sharded(1)"},
                                 {"w4", "sharded(0)"},
                                 {"z1", "sharded(1)"},
                                 {"z2", "partial(sum)"},
                                 {"z3", "sharded(1)"},
                                 {"z4", "partial(sum)"}});
  EXPECT_EQ(count(program, plan, Opcode::all_reduce, "z2"), 0) << text(plan.program, program);
  EXPECT_EQ(count(program, plan, Opcode::reduce_scatter, "z2"), 1);
  EXPECT_EQ(split_of(program, plan, "h2"), "b");
  EXPECT_EQ(count(program, plan, Opcode::all_gather, "h2"), 1);
  EXPECT_EQ(compare_with_reference(program, plan.program, 5), "");
}

/// Sufficient factors (Xie et al. 2016): with few samples and a wide layer, gathering both factors of the weights'
/// gradient and multiplying everywhere moves less than summing the gradient; with many samples it moves more.
TEST(KnownPlans, FactorsOfAWideGradientAreGatheredWhereSamplesAreFew) {
  for (int64_t batch : {8, 4096}) {
    Program program = mlp(batch, {512, 512, 512});
    const Plan plan = pinned_plan(program, cluster_of_speeds({1e12, 1e12, 1e12, 1e12}, 1e9, 1e-7),
                                  {{"w1", "replicated"},
                                   {"w2", "replicated"},
                                   {"m1", "replicated"},
                                   {"m2", "replicated"},
                                   {"z1", "sharded(0)"},
                                   {"z2", "sharded(0)"}});
    const bool summed =
        count(program, plan, Opcode::all_reduce, "d_w2") + count(program, plan, Opcode::reduce_scatter, "d_w2") > 0;
    EXPECT_EQ(summed, batch == 4096) << text(plan.program, program);
    const int factors = count(program, plan, Opcode::all_gather, "h1") + count(program, plan, Opcode::all_gather, "z1");
    EXPECT_EQ(factors > 0, batch == 8) << text(plan.program, program);
    if (batch == 8) {
      EXPECT_EQ(compare_with_reference(program, plan.program, 6), "");
    }
  }
}

Program deep_mlp(int64_t batch) { return mlp(batch, {32, 32, 32, 32}); }

TEST(KnownPlans, TightMemoryShardsParametersAndGathersThemAgain) {
  Program program = deep_mlp(128);
  std::vector<double> speeds(4, 1e10);
  Plan loose = synthesize(program, cluster_of_speeds(speeds, 1e9, 1e-9));
  int64_t need = loose.prediction.devices[0].memory_bytes;
  Plan tight = synthesize(program, cluster_of_speeds(speeds, 1e9, 1e-9, std::vector<int64_t>(4, need * 88 / 100)));
  for (const DevicePrediction& device : tight.prediction.devices)
    EXPECT_LE(device.memory_bytes, device.memory_limit_bytes);
  EXPECT_GE(tight.prediction.objective_seconds, loose.prediction.objective_seconds);
  EXPECT_LE(tight.prediction.lower_bound_seconds, tight.prediction.objective_seconds);
  int sharded = 0, twice = 0;
  for (const char* weight : {"w1", "w2", "w3"}) {
    sharded += kept(program, tight, weight).kind == Placement::Kind::sharded;
    twice += count(program, tight, Opcode::all_gather, weight) == 2;
  }
  EXPECT_GT(sharded, 0);  // ZeRO-3
  EXPECT_GT(twice, 0) << text(tight.program, program);
  EXPECT_EQ(compare_with_reference(program, tight.program, 2), "");
}

TEST(KnownPlans, UnequalMemoriesMoveWorkToTheLargerDevice) {
  Program program = mlp(4096, {64, 64, 64});
  std::vector<double> speeds{1e10, 1e10};
  Plan free = synthesize(program, cluster_of_speeds(speeds));
  int64_t need = free.prediction.devices[0].memory_bytes;
  Plan plan = synthesize(program, cluster_of_speeds(speeds, 1e9, 1e-6, {need / 2, need * 2}));
  EXPECT_LE(plan.prediction.devices[0].memory_bytes, need / 2);
  EXPECT_LT(plan.prediction.devices[0].share, plan.prediction.devices[1].share);
}

TEST(KnownPlans, WhatFitsNowhereNamesDeviceAndLimit) {
  Program program = deep_mlp(64);
  try {
    synthesize(program, cluster_of_speeds({1e9, 1e9}, 1e9, 1e-6, {1 << 30, 100}));
    FAIL() << "a plan was found";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::infeasible);
    EXPECT_THAT(error.what(), HasSubstr("memory of device device1"));
    EXPECT_THAT(error.what(), HasSubstr("100 B"));
  }
}

/// The most thrifty program at the shares that suit speeds does not fit; at others it does.
TEST(KnownPlans, AThriftyProgramFitsWhereTheDeviceThatIsShortOfMemoryGetsLittle) {
  Program program = deep_mlp(64);
  const Plan plan = synthesize(program, cluster_of_speeds({1e9, 1e9}, 1e9, 1e-6, {1 << 30, 10000}));
  EXPECT_LE(plan.prediction.devices[1].memory_bytes, 10000);
  EXPECT_EQ(compare_with_reference(program, plan.program, 4), "");
}

TEST(KnownPlans, BatchSmallerThanTheDevicesIsStillPlanned) {
  Program program = mlp(2, {6, 10, 4});
  Plan plan = synthesize(program, cluster_of_speeds({1e9, 1e9, 2e9, 1e9, 3e9}));
  EXPECT_EQ(compare_with_reference(program, plan.program, 4), "");
}

/// Memory so short that the price on its bytes lifts every plan beyond what counts as a cost.
TEST(KnownPlans, MemoryFarTooShortIsNamedAndNoFault) {
  Program program = mlp(1 << 15, {4096, 4096, 4096});
  try {
    synthesize(program, cluster_of_speeds({1e9, 1e9}, 1e9, 1e-6, {1 << 17, 1 << 17}));
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::infeasible);
    EXPECT_THAT(error.what(), HasSubstr("the memories of all 2 devices together are too small, whatever the plan"));
    EXPECT_THAT(error.what(), HasSubstr("at least 2.812 GiB: parameters 128 MiB, states 128 MiB"));
    EXPECT_THAT(error.what(), HasSubstr("256 KiB in all"));
  }
}

}  // namespace
}  // namespace hetsynth
