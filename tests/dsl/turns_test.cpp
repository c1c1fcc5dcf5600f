// A step in turns is the step: the same loss and updates, from a loop whose length no number of turns changes.
#include "dsl/transform/turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "dsl/ir/interpreter.h"
#include "dsl/ir/trace.h"
#include "dsl/spmd/turns_plan.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "tests/support/error_of.h"

namespace hetsynth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Program step_of(const std::function<void()>& builder, const std::string& turns = "1") {
  Trace trace("model.cpp", {{"turns", turns}});
  run_builder(trace, builder);
  return differentiate(trace);
}

/// Values of leaves: parameters by name, inputs as they lie in memory, which turns do not change.
Bindings leaves_of(const Program& program) {
  Bindings out = initial_values(program, 3);
  for (const Node& node : program.nodes) {
    if (node.kind != NodeKind::input) continue;
    Array array(node.type.shape);
    const int stream = int(std::hash<std::string>()(node.name) & 0xffff);
    for (size_t i = 0; i < array.values.size(); ++i) {
      const double u = philox_uniform(11, stream, i, 0);
      array.values[i] = node.type.dtype == DType::i32 ? std::floor(u * double(node.data.classes)) : 2 * u - 1;
    }
    out[node.id] = array;
  }
  return out;
}

std::map<std::string, Array> results_of(const Program& program) {
  std::vector<Array> values = interpret(program, leaves_of(program), {5, 2});
  std::map<std::string, Array> out{{"loss", values[program.loss]}};
  for (const Update& update : program.updates) out[program[update.target].name] = values[update.value];
  return out;
}

/// Sums of doubles in another order differ by their rounding.
void expect_same_step(const std::function<void()>& builder, const std::string& turns) {
  const auto wanted = results_of(step_of(builder)), found = results_of(step_of(builder, turns));
  ASSERT_EQ(found.size(), wanted.size());
  for (const auto& [name, array] : wanted) {
    ASSERT_EQ(found.at(name).shape, array.shape);
    for (size_t i = 0; i < array.values.size(); ++i)
      EXPECT_NEAR(found.at(name).values[i], array.values[i], 1e-12 * (1 + std::abs(array.values[i]))) << name;
  }
}

void mean_model(double drop = 0) {
  auto [x, y] = synthetic_batch(12, 3, 5);
  Tensor table = parameter("table", {5, 4}, normal(0.5));
  Tensor w = parameter("w", {3, 4}, normal(0.5));
  Tensor h = dropout(tanh(matmul(x, w)), drop) - embedding(table, y);
  minimize(mean(h * h), AdamW{.learning_rate = 0.1, .clip_norm = 0.3});
}

/// Samples count by their labels; the parameter is used twice, so that two sums of a turn are added up there.
void counted_model() {
  auto [x, y] = synthetic_batch(12, 3, 2);
  Tensor w = parameter("w", {3}, normal(0.5));
  Tensor weight = reshape(embedding(full({2, 1}, 0.5), y), {12});
  Tensor error = einsum("bk,k->b", x, w) * einsum("bk,k->b", x * x, w) - 1.0;
  minimize({sum(error * error * weight), sum(weight)}, SGD{.learning_rate = 0.1, .momentum = 0});
}

TEST(Turns, OfAMeanAreTheStep) {
  for (const char* turns : {"2", "3", "4", "12", "1+1", "3+1", "11+1"}) expect_same_step([] { mean_model(); }, turns);
}

TEST(Turns, DrawTheRandomNumbersOfTheStep) {
  expect_same_step([] { mean_model(0.4); }, "4");
  expect_same_step([] { mean_model(0.4); }, "3+1");
}

TEST(Turns, OfALossThatCountsAreTheStep) {
  for (const char* turns : {"2", "4", "12", "2+1"}) expect_same_step(counted_model, turns);
}

TEST(Turns, OfNoiseThatReadsNoSampleAreTheStep) {
  expect_same_step(
      [] {
        auto [x, y] = synthetic_batch(8, 3, 2);
        Tensor w = parameter("w", {3}, normal(0.5));
        Tensor seen = dropout(full({8}, 1), 0.5);  // of no sample, but read with them
        minimize(mean(square(einsum("bk,k->b", x, w)) * seen), SGD{});
      },
      "4");
}

TEST(Turns, MakeNoLongerProgram) {
  const size_t two = step_of([] { mean_model(); }, "2").nodes.size(),
               twelve = step_of([] { mean_model(); }, "12").nodes.size();
  EXPECT_EQ(two, twelve);
}

TEST(Turns, KeepOnePartOfWhatIsComputedOfSamples) {
  const Program program = step_of([] { mean_model(); }, "4");
  int in_loop = 0;
  for (const Node& node : program.nodes) {
    if (node.loop < 0) continue;
    ++in_loop;
    if (!node.type.shape.empty() && node.name == "h") {
      EXPECT_EQ(node.type.shape, (Shape{3, 4}));
    }
  }
  EXPECT_GT(in_loop, 10);
  for (const Node& node : program.nodes)
    if (node.kind == NodeKind::input) {
      EXPECT_EQ(node.type.shape[0], 4) << node.name;
    }
}

TEST(Turns, ArePlannedAsAMeshAxis) {
  Trace trace("model.cpp", {{"turns", "4"}});
  run_builder(trace, [] { mean_model(); });
  differentiate(trace);
  const Program& whole = trace.whole_step.value();
  const SpmdProgram plan = plan_of_turns(whole, place_in_turns(whole, 4), 4);
  int sums = 0;
  for (const Instruction& i : plan.instructions) sums += i.opcode == Opcode::all_reduce;
  EXPECT_EQ(sums, 3);  // the loss and two gradients
  EXPECT_EQ(plan.mesh.device_count(), 4);
}

std::string refusal(const std::function<void()>& builder, const std::string& turns) {
  return error_of([&] { step_of(builder, turns); });
}

/// How many labels count is known before the first turn: a loop over labels alone comes first.
TEST(Turns, OfALossThatDividesByACountAreTheStep) {
  const auto builder = [] {
    auto [x, y] = synthetic_batch(12, 3, 4);
    Tensor w = parameter("w", {3, 4}, normal(0.5));
    minimize(cross_entropy(matmul(x, w), y, {.ignored_label = 1}), SGD{.learning_rate = 0.1, .momentum = 0});
  };
  for (const char* turns : {"2", "12", "3+1"}) expect_same_step(builder, turns);
  const Program program = step_of(builder, "4");
  ASSERT_EQ(program.loops.size(), 2u);
  for (const Node& node : program.nodes)
    if (node.loop == 0) {
      EXPECT_EQ(node.name.find("x"), std::string::npos) << node.name;
    }
}

TEST(Turns, OfOneStatisticOfTheBatchAreTheStep) {
  expect_same_step(
      [] {
        auto [x, y] = synthetic_batch(8, 3, 2);
        Tensor w = parameter("w", {3}, normal(0.5));
        Tensor centred = x - mean(x, {0}, true);
        minimize(mean(square(einsum("bk,k->b", centred, w))), SGD{});
      },
      "4");
}

TEST(Turns, AreRefusedWhereStatisticsDependOnEachOther) {
  const auto builder = [] {
    auto [x, y] = synthetic_batch(8, 3, 2);
    Tensor w = parameter("w", {3}, normal(0.5));
    Tensor centred = x - mean(x, {0}, true);
    Tensor scaled = centred / sqrt(mean(square(centred), {0}, true) + 0.1);
    minimize(mean(square(einsum("bk,k->b", scaled, w))), SGD{});
  };
  EXPECT_THAT(refusal(builder, "2"), ::testing::AllOf(HasSubstr("is part of such a sum that samples read"),
                                                      ::testing::Not(HasSubstr("--accumulate"))));
}

TEST(Turns, ThatDoNotDivideTheBatchAreRefusedAndThoseThatDoAreNamed) {
  EXPECT_THAT(refusal([] { mean_model(); }, "5"),
              ::testing::AllOf(HasSubstr("12 samples, which 5 turns do not divide"), HasSubstr("2, 3, 4, 6, 12")));
  EXPECT_THAT(possible_turns(step_of([] { mean_model(); })), ElementsAre(2, 3, 4, 6, 12));
}

TEST(Turns, OfStepsInLoopsOverTimeAreRefused) {
  const auto builder = [] {
    auto [tokens, labels] = labelled_tokens(4, 6, 10, 2);
    Tensor h = embedding(parameter("table", {10, 3}, normal(1)), tokens);
    ScanResult all = scan(h, {full({4, 3}, 0)}, [](const std::vector<Tensor>& state, Tensor now) {
      Tensor next = tanh(state[0] + now);
      return ScanStep{{next}, next};
    });
    minimize(mean(all.outputs * all.outputs), SGD{});
  };
  EXPECT_THAT(refusal(builder, "2"), HasSubstr("loop over time steps"));
}

TEST(Turns, AndSeveralBatchesExcludeEachOther) {
  Trace trace("model.cpp", {{"turns", "2"}, {"micro_batches", "2"}});
  EXPECT_THAT(error_of([&] {
                run_builder(trace, [] { mean_model(); });
                differentiate(trace);
              }),
              HasSubstr("--turns or --accumulate"));
}

TEST(Turns, AreAWholeNumber) {
  for (const char* wrong : {"0", "-1", "two", "2.5", "", "3+", "3+2", "+1", "3+1+1"}) {
    Trace trace("model.cpp", {{"turns", wrong}});
    EXPECT_THAT(error_of([&] {
                  run_builder(trace, [] { mean_model(); });
                  differentiate(trace);
                }),
                HasSubstr("no number of turns"));
  }
}

}  // namespace
}  // namespace hetsynth
