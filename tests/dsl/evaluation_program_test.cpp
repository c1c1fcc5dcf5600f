// Models as they are evaluated: the forward pass without what only training needs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "dsl/ir/interpreter.h"
#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "dsl/transform/evaluation.h"
#include "hetsynth/hetsynth.h"
#include "tests/support/error_of.h"

namespace hetsynth {
namespace {

using ::testing::HasSubstr;
using Settings = std::map<std::string, std::string>;

Program program_of(const std::function<void()>& builder, const Settings& settings = {{"evaluation", "1"}}) {
  Trace trace("model.cpp", settings);
  run_builder(trace, builder);
  return differentiate(trace);
}

/// Names of all nodes of a kind.
std::vector<std::string> names(const Program& program, NodeKind kind) {
  std::vector<std::string> out;
  for (const Node& node : program.nodes)
    if (node.kind == kind) out.push_back(node.name);
  return out;
}

/// Leaves with values spread over (-1, 1); of variances, above zero.
Bindings some_values(const Program& program) {
  Bindings out;
  for (const Node& node : program.nodes) {
    if (!node.leaf()) continue;
    Array array(node.type.shape);
    for (size_t i = 0; i < array.values.size(); ++i) {
      const double u = philox_uniform(7, node.id, i, 0);
      array.values[i] = node.type.dtype == DType::i32     ? std::floor(u * double(node.data.classes))
                        : node.name.ends_with("variance") ? 0.5 + u
                                                          : 2 * u - 1;
    }
    out[node.id] = array;
  }
  return out;
}

void dropped(double drop) {
  auto [x, y] = synthetic_batch(6, 4, 3);
  Tensor h = dropout(tanh(matmul(x, parameter("w", {4, 5}, normal(0.5)))), drop);
  output("h", h);
  minimize(cross_entropy(matmul(h, parameter("o", {5, 3}, normal(0.5))), y), AdamW{.learning_rate = 0.1});
}

TEST(Evaluation, HasTheLossAloneAndNoDropout) {
  const Program found = program_of([] { dropped(0.5); });
  EXPECT_EQ(names(found, NodeKind::state), std::vector<std::string>{});
  EXPECT_EQ(names(found, NodeKind::parameter), (std::vector<std::string>{"w", "o"}));
  EXPECT_TRUE(found.updates.empty());
  EXPECT_TRUE(found.outputs.empty());
  // The same numbers as the loss of a step of training that drops nothing.
  const Program training = program_of([] { dropped(0); }, {});
  Bindings leaves = some_values(found), same;
  for (const Node& node : training.nodes) {
    if (!node.leaf()) continue;
    same[node.id] = Array(node.type.shape);
    for (const Node& other : found.nodes)
      if (other.leaf() && other.name == node.name) same[node.id] = leaves.at(other.id);
  }
  EXPECT_NEAR(interpret(found, leaves, {})[found.loss].values[0],
              interpret(training, same, {})[training.loss].values[0], 1e-12);
}

TEST(Evaluation, NormalisesBatchesByTheRunningStatistics) {
  NodeId out = -1, in = -1;
  const Program found = program_of([&] {
    auto [x, y] = image_batch(3, 2, 4, 5, 7);
    Tensor n = batchnorm(x, parameter("g", {2}, ones()), parameter("b", {2}, zeros()), 1e-3);
    minimize(mean(n * n), SGD{});
  });
  EXPECT_EQ(names(found, NodeKind::state), (std::vector<std::string>{"g.running_mean", "g.running_variance"}));
  EXPECT_TRUE(found.updates.empty());
  const Bindings leaves = some_values(found);
  std::map<std::string, Array> by_name;
  for (const Node& node : found.nodes) {
    if (node.leaf()) by_name[node.name] = leaves.at(node.id);
    if (node.kind == NodeKind::input && node.type.shape.size() == 4) in = node.id;
    if (node.tag() == "batchnorm") out = node.id;
  }
  ASSERT_GE(out, 0);
  const Array value = interpret(found, leaves, {})[out];
  for (size_t i = 0; i < value.values.size(); ++i) {
    const size_t c = i / 20 % 2;
    const auto of = [&](const char* name) { return by_name.at(name).values[c]; };
    const double expected =
        (leaves.at(in).values[i] - of("g.running_mean")) / std::sqrt(of("g.running_variance") + 1e-3) * of("g") +
        of("b");
    ASSERT_NEAR(value.values[i], expected, 1e-12);
  }
}

TEST(Evaluation, OffersTheTotalAndTheCountOfALoss) {
  const Program found = program_of([] {
    auto [x, y] = synthetic_batch(6, 4, 3);
    Tensor error = matmul(x, parameter("w", {4, 1}, normal(0.5)));
    minimize({sum(error * error), as_tensor(6.0)}, SGD{});
  });
  ASSERT_EQ(found.outputs.size(), 2u);
  EXPECT_EQ(found.outputs[0].name, loss_total_output);
  EXPECT_EQ(found.outputs[1].name, loss_count_output);
  const std::vector<Array> values = interpret(found, some_values(found), {});
  EXPECT_NEAR(values[found.loss].values[0], values[found.outputs[0].node].values[0] / 6, 1e-12);
}

TEST(Evaluation, IsPartOfWhatAPlanIsMadeFor) {
  const Program found = program_of([] { dropped(0.5); });
  ASSERT_FALSE(found.options.empty());
  EXPECT_EQ(found.options.back().name, "evaluation");
  EXPECT_EQ(found.options.back().value, "1");
}

TEST(Evaluation, RefusesWhatMeansNothingWithoutTraining) {
  EXPECT_THAT(error_of([] {
                program_of([] { dropped(0); }, {{"evaluation", "yes"}});
              }),
              ::testing::AllOf(HasSubstr("[evaluation] this does not say whether the model is evaluated"),
                               HasSubstr("found:    \"yes\"")));
  EXPECT_THAT(error_of([] {
                program_of([] { dropped(0); }, {{"evaluation", "1"}, {"micro_batches", "2"}});
              }),
              ::testing::AllOf(HasSubstr("no gradients to add up"), HasSubstr("leave --accumulate out")));
  EXPECT_THAT(error_of([] {
                program_of([] { dropped(0); }, {{"evaluation", "1"}, {"turns", "3"}});
              }),
              ::testing::AllOf(HasSubstr("no gradients to add up over turns"), HasSubstr("found:    3 turns")));
  for (const auto& [setting, value, option] :
       {std::tuple("gradient_norm", "1", "--gradient-norm"), std::tuple("freeze", "h0", "--freeze")})
    EXPECT_THAT(error_of([&] {
                  program_of([] { dropped(0); }, {{"evaluation", "1"}, {setting, value}});
                }),
                ::testing::AllOf(HasSubstr("[evaluation] an evaluation trains nothing, and has no gradients"),
                                 HasSubstr(std::string("found:    ") + setting + "=" + value),
                                 HasSubstr(std::string("leave ") + option + " out")));
}

}  // namespace
}  // namespace hetsynth
