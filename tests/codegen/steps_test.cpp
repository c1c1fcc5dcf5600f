// Whole training steps of the example models: generated programs of one and several ranks against the interpreter.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "dsl/spmd/recomputation.h"
#include "harness.h"
#include "models.h"
#include "synth/baselines/peers/peers.h"
#include "synth/planner/synthesize.h"
#include "tests/support/by_host.h"
#include "tests/support/detours.h"

namespace hetsynth::test {
namespace {

double largest_difference(const Array& a, const Array& b) {
  double largest = 0;
  for (size_t i = 0; i < a.values.size(); ++i) {
    double difference = std::abs(a.values[i] - b.values[i]);
    if (!(difference <= largest)) largest = difference;  // keeps a NaN
  }
  return largest;
}

/// `rounding`: what a bf16 operand on the other side of a tie may change, of loss and moments.
/// Trains for some steps with both, each from its own state, and compares loss and parameters after each.
void expect_trains_alike(const Program& program, const SpmdProgram& plan, int steps = 4, double rounding = 0) {
  Bindings state = starting_values(program, 5);
  GeneratedRun run(program, plan);
  for (const auto& [leaf, value] : state) run.write(leaf, value);
  for (int step = 0; step < steps; ++step) {
    EvaluationContext context{5, step};
    std::vector<Array> values = interpret(program, state, context);
    ASSERT_TRUE(run.step(context));
    // Float32 sums of at most some hundred terms in the loss of about 5.5: 1e-5 is some 20 roundings of it.
    ASSERT_NEAR(run.loss(), values[program.loss].values[0], (1e-5 + rounding) * (1 + step)) << "step " << step;
    for (const Update& update : program.updates) {
      state[update.target] = values[update.value];
      // AdamW moves a parameter by at most about the learning rate (2e-3) whatever the gradient's size, so where a
      // gradient is all rounding error, the first steps may go any way: the bound is a share of the distance moved.
      bool moment = program[update.target].kind == NodeKind::state;
      double bound = moment ? 1e-5 + rounding : 3e-3 * (step + 1);
      Array found = run.read(update.target);
      ASSERT_LE(largest_difference(found, values[update.value]), bound)
          << program[update.target].name << " after step " << step;
    }
  }
}

TEST(Steps, MlpOnOneRank) {
  Program program = mlp_program();
  expect_trains_alike(program, single_device_plan(program, unequal_cluster({1e9})).program);
}

TEST(Steps, GptOnOneRank) {
  Program program = gpt_program();
  expect_trains_alike(program, single_device_plan(program, unequal_cluster({1e9})).program);
}

TEST(Steps, DataParallelWithUnevenShares) {
  Program mlp = mlp_program(), gpt = gpt_program();
  for (const std::vector<double>& speeds : {std::vector<double>{1e9, 3e9}, {2e9, 1e9, 4e9}}) {
    SCOPED_TRACE(fmt::format("{} ranks", speeds.size()));
    Cluster cluster = unequal_cluster(speeds);
    expect_trains_alike(mlp, data_parallel_plan(mlp, cluster, RatioRule::proportional).program);
    expect_trains_alike(gpt, data_parallel_plan(gpt, cluster, RatioRule::proportional).program, 2);
  }
}

/// Within hosts of two and one, of one and three devices first; parameters gathered and gradients scattered likewise,
/// and values sent there and back.
TEST(Steps, HierarchicalCollectives) {
  const Program program = mlp_program();
  const Cluster three = unequal_cluster({2e9, 1e9, 4e9}), four = unequal_cluster({1e9, 2e9, 1e9, 3e9});
  const SpmdProgram plan = data_parallel_plan(program, three, RatioRule::proportional).program;
  expect_trains_alike(program, by_host(plan, {2, 1}), 2);
  expect_trains_alike(program, by_host(with_detours(program, plan), {1, 2}), 2);
  for (const PeerPlan& peer : peer_plans(program, four)) {
    if (peer.name.find("ZeRO") == std::string::npos || !peer.plan) continue;
    SCOPED_TRACE(peer.name);
    expect_trains_alike(program, by_host(with_detours(program, peer.plan->program), {1, 3}), 2);
  }
}

TEST(Steps, ARankWithoutSamplesStillTakesPart) {
  Program program = mlp_program();
  SpmdProgram plan = data_parallel_plan(program, unequal_cluster({1e9, 1e9})).program;
  for (BoundaryTable& table : plan.tables) table.bounds = {0, table.extent, table.extent};
  expect_trains_alike(program, plan, 2);
}

TEST(Steps, SynthesizedPlans) {
  Program mlp = mlp_program(), gpt = gpt_program();
  Cluster cluster = unequal_cluster({1e9, 2.5e9, 1e9});
  SynthesisOptions options;
  options.time_limit_seconds = 3;  // any plan it has found by then must run
  expect_trains_alike(mlp, synthesize(mlp, cluster, options).program);
  expect_trains_alike(gpt, synthesize(gpt, cluster, options).program, 2);
}

int64_t arena_bytes(const Program& program) {
  return generate(program, whole_program(program), cpu_cluster(1), 0).arena_bytes;
}

const Settings small_gpt = {{"layers", "2"}, {"heads", "2"}, {"width", "12"}, {"batch", "4"}, {"seq", "6"}};

Settings with(Settings settings, const Settings& more) {
  for (const auto& [name, value] : more) settings[name] = value;
  return settings;
}

TEST(Steps, MicroBatchesAccumulate) {
  Program program = gpt_program(with(small_gpt, {{"micro_batches", "3"}, {"dropout", "0.1"}}));
  Cluster cluster = unequal_cluster({1e9, 3e9});
  expect_trains_alike(program, whole_program(program), 2);
  expect_trains_alike(program, data_parallel_plan(program, cluster, RatioRule::proportional).program, 2);
}

TEST(Steps, MicroBatchesTakeTheMemoryOfOne) {
  const Settings longer = with(small_gpt, {{"seq", "40"}, {"width", "16"}});
  int64_t one = arena_bytes(gpt_program(longer));
  int64_t accumulated = arena_bytes(gpt_program(with(longer, {{"micro_batches", "4"}})));
  int64_t large = arena_bytes(gpt_program(with(longer, {{"batch", "16"}})));
  EXPECT_LT(accumulated - one, (large - one) / 4) << "sums of gradients are all that is added";
}

TEST(Steps, InTurnsTrainAlike) {
  for (const char* turns : {"2", "4", "1+1", "3+1"}) {
    SCOPED_TRACE(turns);
    Program program = gpt_program(with(small_gpt, {{"turns", turns}, {"dropout", "0.1"}}));
    Cluster cluster = unequal_cluster({1e9, 3e9});
    expect_trains_alike(program, whole_program(program), 2);
    expect_trains_alike(program, data_parallel_plan(program, cluster, RatioRule::proportional).program, 2);
  }
}

TEST(Steps, InTurnsTakeTheMemoryOfOne) {
  const Settings longer = with(small_gpt, {{"seq", "40"}, {"width", "16"}});
  const int64_t one = arena_bytes(gpt_program(longer));
  const int64_t large = arena_bytes(gpt_program(with(longer, {{"batch", "16"}})));
  const int64_t in_turns = arena_bytes(gpt_program(with(longer, {{"batch", "16"}, {"turns", "4"}})));
  EXPECT_LT(in_turns - one, (large - one) / 4) << "sums of gradients are all that is added";
}

TEST(Steps, CheckpointedBlocksTrainAlikeInLessMemory) {
  const Settings again{{"checkpoint", "1"}, {"dropout", "0.1"}};
  Program program = gpt_program(with(small_gpt, again));
  expect_trains_alike(program, whole_program(program), 2);
  expect_trains_alike(program, data_parallel_plan(program, unequal_cluster({1e9, 3e9})).program, 2);
  const Settings longer = with(small_gpt, {{"seq", "40"}, {"width", "16"}, {"layers", "6"}});
  EXPECT_LT(arena_bytes(gpt_program(with(longer, again))),
            arena_bytes(gpt_program(with(longer, {{"dropout", "0.1"}}))) / 2);
}

TEST(Steps, ValuesMadeAgainTrainAlikeInLessMemory) {
  Program program = gpt_program();
  Cluster cluster = unequal_cluster({1e9, 2e9});
  const Plan roomy = synthesize(program, cluster);
  for (Device& device : cluster.devices) device.memory_bytes = roomy.prediction.devices[1].memory_bytes * 8 / 10;
  const Plan tight = synthesize(program, cluster);
  const std::vector<char> again = made_again(tight.program);
  ASSERT_GT(std::count(again.begin(), again.end(), 1), 0);
  expect_trains_alike(program, tight.program);
  EXPECT_LT(generate(program, tight.program, cluster, 1).arena_bytes,
            0.85 * double(generate(program, roomy.program, cluster, 1).arena_bytes));
}

TEST(Steps, MixedPrecision) {
  for (const std::string precision : {"bf16", "fp16"}) {
    SCOPED_TRACE(precision);
    Program program = gpt_program(with(small_gpt, {{"precision", precision}}));
    std::string text = generate(program, whole_program(program), cpu_cluster(1), 0).files[0].text;
    EXPECT_NE(text.find("hetsynth_matmul_" + precision + "("), std::string::npos);
    EXPECT_NE(text.find(precision + "* const "), std::string::npos);
    // Float32 and float64 round some operands to different neighbours, 2^-8 of their size apart, or 2^-10.
    const double bound = precision == "bf16" ? 1e-3 : 3e-4;
    expect_trains_alike(program, whole_program(program), 3, bound);
    Cluster cluster = unequal_cluster({1e9, 3e9});
    expect_trains_alike(program, data_parallel_plan(program, cluster, RatioRule::proportional).program, 2, bound);
    expect_trains_alike(program, tensor_parallel_plan(program, cluster).program, 2, bound);
  }
}

TEST(Steps, RunsAreBitwiseRepeatable) {
  Program program = gpt_program(with(small_gpt, {{"lr", "2e-3"}}));  // so that three steps show that it trains
  SpmdProgram plan = data_parallel_plan(program, unequal_cluster({1e9, 2e9}), RatioRule::proportional).program;
  std::vector<double> losses[2];
  for (std::vector<double>& list : losses) {
    GeneratedRun run(program, plan);
    for (const auto& [leaf, value] : starting_values(program, 5)) run.write(leaf, value);
    for (int step = 0; step < 3; ++step) {
      ASSERT_TRUE(run.step({5, step}));
      list.push_back(run.loss());
    }
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_LT(losses[0].back(), losses[0].front());
}

}  // namespace
}  // namespace hetsynth::test
