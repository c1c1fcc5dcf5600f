// The number of turns as a choice of planning: where memory is short, and no more than it asks for.
#include "synth/planner/planned_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dsl/cluster/cluster.h"
#include "dsl/ir/trace.h"
#include "dsl/spmd/loop_schedule.h"
#include "dsl/spmd/recomputation.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "tests/support/error_of.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Program step_of(const std::function<void()>& builder) {
  Trace trace("model.cpp");
  run_builder(trace, builder);
  return differentiate(trace);
}

/// Wide activations, few parameters; `meet`: samples meet in a statistic.
void wide_model(bool meet) {
  constexpr int64_t batch = 64;
  auto [x, y] = synthetic_batch(batch, 16, 4);
  Tensor h = matmul(x, parameter("w1", {16, 512}, normal(0.1)));
  for (int layer = 0; layer < 3; ++layer) h = tanh(h) + square(h) * 0.1;
  if (meet) h = (h - mean(h, {0}, true)) / sqrt(mean(square(h - mean(h, {0}, true)), {0}, true) + 0.1);
  minimize(cross_entropy(matmul(h, parameter("w2", {512, 4}, normal(0.1))), y), SGD{.momentum = 0});
}

Cluster two_devices(int64_t bytes) {
  Cluster cluster = local_cluster(2);
  for (Device& device : cluster.devices) {
    device.declared = {1e9, 1e9};
    device.measured = {};
    device.memory_bytes = bytes;
  }
  return cluster;
}

int64_t most_memory(const Plan& plan) {
  int64_t most = 0;
  for (const DevicePrediction& device : plan.prediction.devices) most = std::max(most, device.memory_bytes);
  return most;
}

TEST(PlannedStep, IsTakenAtOnceWhereMemoryIsNotShort) {
  const PlannedStep step = synthesize_in_turns(step_of([] { wide_model(false); }), two_devices(1 << 30), {});
  EXPECT_EQ(step.turns, TurnCount{});
  EXPECT_FALSE(step.program);
  EXPECT_TRUE(step.plan.prediction.turns.empty());
}

TEST(PlannedStep, IsTakenInTurnsWhereNothingElseFits) {
  const Program whole = step_of([] { wide_model(false); });
  const PlannedStep roomy = synthesize_in_turns(whole, two_devices(1 << 30), {});
  const Cluster tight = two_devices(most_memory(roomy.plan) / 3);
  EXPECT_THAT(error_of([&] { synthesize(whole, tight); }), HasSubstr("memory"));
  const PlannedStep step = synthesize_in_turns(whole, tight, {});
  EXPECT_GE(step.turns.turns, 2);
  ASSERT_TRUE(step.program);
  const std::vector<TurnTrial>& tried = step.plan.prediction.turns;
  ASSERT_GE(tried.size(), 2u);
  EXPECT_EQ(tried[0], (TurnTrial{.turns = "1"}));
  EXPECT_EQ(std::ranges::count(tried, true, &TurnTrial::taken), 1);
  for (const TurnTrial& trial : tried)
    if (trial.step_seconds > 0 && trial.stages == 1) {
      EXPECT_GE(trial.step_seconds, step.plan.prediction.step_seconds);
    }
  // What is told of a plan is kept in its file.
  const Plan read = plan_from_json(plan_to_json(step.plan, *step.program), "plan.json", *step.program);
  EXPECT_EQ(read.prediction.turns, tried);
}

TEST(PlannedStep, OfEqualTurnsTheFasterPlanIsTold) {
  const Program whole = step_of([] { wide_model(false); });
  const PlannedStep roomy = synthesize_in_turns(whole, two_devices(1 << 30), {});
  for (const int64_t part : {3, 5, 8})
    for (const Effort effort : {Effort::quick, Effort::normal, Effort::full}) {
      SynthesisOptions options;
      options.effort = effort;
      options.stages = 1;
      const PlannedStep step = synthesize_in_turns(whole, two_devices(most_memory(roomy.plan) / part), options);
      std::vector<std::string> turns;
      for (const TurnTrial& trial : step.plan.prediction.turns) turns.push_back(trial.turns);
      std::ranges::sort(turns);
      EXPECT_EQ(std::ranges::adjacent_find(turns), turns.end()) << "told twice";
      EXPECT_EQ(std::ranges::count(step.plan.prediction.turns, true, &TurnTrial::taken), 1);
    }
}

TEST(PlannedStep, SaysWhichTensorForbidsTurns) {
  const Program whole = step_of([] { wide_model(true); });
  const Plan roomy = synthesize(whole, two_devices(1 << 30));
  EXPECT_THAT(error_of([&] { synthesize_in_turns(whole, two_devices(most_memory(roomy) / 4), {}); }),
              HasSubstr("the step cannot be taken in turns"));
}

TEST(PlannedStep, SaysWhyThereAreNoStages) {
  SynthesisOptions options;
  options.stages = 3;
  const Cluster two = two_devices(1 << 30);
  EXPECT_THAT(error_of([&] { synthesize_in_turns(step_of([] { wide_model(false); }), two, options); }),
              AllOf(HasSubstr("no pipeline of 3 stages was found"), HasSubstr("at most 2, one for each device")));
  options.stages = 2;
  EXPECT_THAT(error_of([&] { synthesize_in_turns(step_of([] { wide_model(true); }), two, options); }),
              HasSubstr("the step cannot be taken in turns"));
}

/// Activations of a turn of half the batch take many times as much as the parameters.
void two_layers() {
  constexpr int64_t batch = 1024;
  auto [x, y] = synthetic_batch(batch, 64, 64);
  Tensor h = tanh(matmul(x, parameter("w1", {64, 2048}, normal(0.1))));
  minimize(cross_entropy(matmul(h, parameter("w2", {2048, 64}, normal(0.1))), y), SGD{.momentum = 0});
}

TEST(PlannedStep, SaysWhichStageLacksHowMuchMemory) {
  const Program whole = step_of(two_layers);
  SynthesisOptions options;
  options.stages = 2;
  EXPECT_THAT(error_of([&] { synthesize_in_turns(whole, two_devices(600'000), options); }),
              AllOf(HasSubstr("no pipeline of 2 stages fits into memory"), HasSubstr("expected: at most"),
                    HasSubstr("for stage"), HasSubstr("turns, of which it keeps one at a time"),
                    HasSubstr("too much; no other number of turns does"),
                    HasSubstr("take another number of stages, or leave it to the planner")));
  // In two turns activations of a stage do not fit, in more they do.
  const auto at = [&](int64_t turns, int64_t bytes) {
    return synthesize_at_turns(whole, in_turns(whole, {turns}), {turns}, two_devices(bytes), options);
  };
  const int64_t between = most_memory(at(64, 1 << 30).plan) * 5 / 4;
  EXPECT_EQ(at(64, between).turns.turns, 64);
  EXPECT_THAT(error_of([&] { at(2, between); }),
              AllOf(HasSubstr("in 2 turns"), HasSubstr("turns (--turns "), HasSubstr("in which they fit")));
}

TEST(PlannedStep, StagesMakeValuesAgainWhereMemoryIsShort) {
  // The first stage keeps much for its backward passes that it can make again from little.
  const Program whole = step_of([] {
    auto [x, y] = synthetic_batch(64, 16, 4);
    Tensor h = x;
    for (int layer = 0; layer < 4; ++layer) {
      const std::string name = "layer" + std::to_string(layer);
      h = matmul(h, parameter(name + ".up", {16, 128}, normal(0.1)));
      for (int i = 0; i < 3; ++i) h = tanh(h) + square(h) * 0.1;
      h = matmul(h, parameter(name + ".down", {128, 16}, normal(0.1)));
    }
    minimize(cross_entropy(matmul(h, parameter("out", {16, 4}, normal(0.1))), y), SGD{.momentum = 0});
  });
  SynthesisOptions options;
  options.stages = 2;
  const auto at = [&](int64_t bytes) {
    return synthesize_at_turns(whole, in_turns(whole, {2}), {2}, two_devices(bytes), options);
  };
  const PlannedStep roomy = at(1 << 30);
  EXPECT_EQ(std::ranges::count(made_again(roomy.plan.program), char(1)), 0);
  const int64_t limit = most_memory(roomy.plan) * 2 / 3;
  const PlannedStep tight = at(limit);
  EXPECT_LE(most_memory(tight.plan), limit);
  EXPECT_GT(std::ranges::count(made_again(tight.plan.program), char(1)), 0);
  EXPECT_TRUE(tight.plan.prediction.turns.back().short_of_memory);
  EXPECT_FALSE(flaw_of(*tight.program, tight.plan.program, tight.plan.program.schedules.at(0)));
  options.pins.recompute = false;
  const PlannedStep waits = at(limit);  // --forbid recompute: one turn after the other
  EXPECT_LE(most_memory(waits.plan), limit);
  EXPECT_EQ(std::ranges::count(made_again(waits.plan.program), char(1)), 0);
}

TEST(PlannedStep, IsTakenInTheStagesThatAreAskedFor) {
  const Program whole = step_of([] { wide_model(false); });
  const Cluster two = two_devices(1 << 30);
  SynthesisOptions options;
  options.stages = 2;
  const PlannedStep step = synthesize_in_turns(whole, two, options);
  ASSERT_TRUE(step.program);
  EXPECT_EQ(step.plan.program.mesh.axes[0].size, 2);
  EXPECT_EQ(step.plan.program.schedules.size(), 1u);
  EXPECT_EQ(std::ranges::count(step.plan.prediction.turns, true, &TurnTrial::taken), 1);
  const Plan read = plan_from_json(plan_to_json(step.plan, *step.program), "plan.json", *step.program);
  EXPECT_EQ(read.program, canonical(step.plan.program));
  EXPECT_EQ(read.prediction.turns, step.plan.prediction.turns);
  options.stages = 1;
  EXPECT_FALSE(synthesize_in_turns(whole, two, options).program);
}

}  // namespace
}  // namespace hetsynth
