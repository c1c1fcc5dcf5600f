// Every model of examples/ in turns: the step of the whole batch, by proof and by the numbers, on one device and on
// uneven ones, in the memory that was planned.
#include "dsl/transform/turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "dsl/ir/interpreter.h"
#include "dsl/spmd/recomputation.h"
#include "dsl/spmd/turns_plan.h"
#include "hetsynth/build_paths.h"
#include "runtime/data/batch_source.h"
#include "runtime/launch.h"
#include "synth/planner/synthesize.h"
#include "tests/support/test_name.h"
#include "tests/support/zoo/walk.h"
#include "verify/verify.h"

namespace hetsynth::testing {
namespace {

class InTurns : public ::testing::TestWithParam<ListedModel> {};
INSTANTIATE_TEST_SUITE_P(Models, InTurns, ::testing::ValuesIn(first_of_each_file()),
                         [](const auto& info) { return test_name(info.param.name); });

std::map<std::string, Array> results_of(const Program& program, const BatchSource& data) {
  Bindings leaves = initial_values(program, 3);
  leaves.merge(whole_batch(program, data, 1));
  const std::vector<Array> values = interpret(program, leaves, {5, 1});
  std::map<std::string, Array> out{{"loss", values[size_t(program.loss)]}};
  for (const Update& update : program.updates) out[program[update.target].name] = values[size_t(update.value)];
  return out;
}

TEST_P(InTurns, IsTheStepByProofAndByTheNumbers) {
  const TracedModel traced = trace_model(GetParam(), GetParam().tiny);
  const Program& whole = traced.program;
  const std::vector<int64_t> possible = possible_turns(whole);
  ASSERT_FALSE(possible.empty());
  const int64_t count = possible.back();
  const Turns turns = take_turns(whole, {count});
  ASSERT_EQ(turns.program.has_value(), has_turns(GetParam())) << turns.refusal.why;
  if (!turns.program) return;

  const Verification proof = verify(whole, plan_of_turns(whole, place_in_turns(whole, count), int(count)));
  EXPECT_EQ(proof.verdict, Verdict::proved) << proof.summary;
  EXPECT_GT(proof.trials, 0);

  const std::string path = HETSYNTH_SOURCE_DIR "/docs";
  const bool text = GetParam().file.ends_with("gpt.cpp") || GetParam().file.ends_with("mlp.cpp");
  const DataOptions options{text ? path : "", 7};
  const auto wanted = results_of(whole, *open_data(whole, options));
  for (const bool last_apart : {false, true}) {
    const Program program = take_turns(whole, {count, last_apart}).program.value();
    const auto found = results_of(program, *open_data(program, options));
    ASSERT_EQ(found.size(), wanted.size());
    for (const auto& [name, array] : wanted) {
      ASSERT_EQ(found.at(name).shape, array.shape) << name;
      double largest = 0;
      for (double value : array.values) largest = std::max(largest, std::abs(value));
      // Float64 sums of some thousand terms in another order.
      for (size_t i = 0; i < array.values.size(); ++i)
        ASSERT_NEAR(found.at(name).values[i], array.values[i], 1e-11 * (1 + largest)) << name << " " << i;
    }
  }
}

/// The whole batch on one device against turns on three uneven ones.
void expect_same_training(const ListedModel& model, const char* turns) {
  constexpr int64_t steps = 5;
  Settings settings = model.tiny;
  const TracedModel whole = trace_model(model, settings);
  settings["turns"] = turns;
  const TracedModel traced = trace_model(model, settings);
  const Cluster three = three_uneven_devices();
  const Plan plan = synthesize(traced.program, three, {.time_limit_seconds = 5, .progress = {}});
  const Verification proof = verify(traced.program, plan.program);
  EXPECT_EQ(proof.verdict, Verdict::proved) << proof.summary;
  for (int rank = 0; rank < 3; ++rank) {
    const double arena = double(generate(traced.program, plan.program, three, rank).arena_bytes);
    const double planned = double(plan.prediction.devices[size_t(rank)].memory_bytes);
    EXPECT_NEAR(planned, arena, 0.1 * arena + 2048) << "rank " << rank;
  }
  const TwoRuns runs = train_on_both(traced.program, plan, three, steps);
  EXPECT_LT(runs.largest_difference(), loss_bound);
  const Plan alone = synthesize(whole.program, one_device());
  const TwoRuns of_whole = train_on_both(whole.program, alone, one_device(), steps);
  for (size_t i = 0; i < size_t(steps); ++i)
    EXPECT_NEAR(runs.together[i], of_whole.alone[i], loss_bound * (1 + std::abs(of_whole.alone[i]))) << "step " << i;
}

class TrainedInTurns : public InTurns {};
INSTANTIATE_TEST_SUITE_P(Models, TrainedInTurns, ::testing::ValuesIn(models_with_turns()),
                         [](const auto& info) { return test_name(info.param.name); });

TEST_P(TrainedInTurns, IsTheWholeBatchOnUnevenDevices) {
  for (const char* turns : {"2", "1+1"}) expect_same_training(GetParam(), turns);
}

/// Values of a turn are made again in it.
TEST(TightTurns, AreRightAndFit) {
  int recomputing = 0;
  for (const ListedModel& model : models_with_turns()) {
    Settings settings = model.tiny;
    settings["turns"] = "2";
    const TracedModel traced = trace_model(model, settings);
    Cluster three = three_uneven_devices();
    SynthesisOptions options;
    options.effort = Effort::quick;
    const std::optional<Plan> tight = plan_in_part_of_memory(traced.program, options, 85, 2048, &three);
    if (!tight) continue;
    recomputing += std::ranges::count(made_again(tight->program), char(1)) > 0;
    const Verification proof = verify(traced.program, tight->program);
    EXPECT_EQ(proof.verdict, Verdict::proved) << model.name << ": " << proof.summary;
    EXPECT_LT(train_on_both(traced.program, *tight, three, 3).largest_difference(), loss_bound) << model.name;
  }
  EXPECT_GE(recomputing, 3);
}

}  // namespace
}  // namespace hetsynth::testing
