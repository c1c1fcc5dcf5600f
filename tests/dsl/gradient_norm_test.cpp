// The norm of all gradients as a metric: what it is, that it changes nothing else, and what is said of wrong uses.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "dsl/base/error.h"
#include "dsl/ir/interpreter.h"
#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "dsl/transform/unroll.h"
#include "hetsynth/hetsynth.h"
#include "tests/support/error_of.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Settings = std::map<std::string, std::string>;

constexpr double rate = 0.1;

/// Without momentum a step moves parameters by the gradients times the rate, and the clipping factor.
void model_of(double clip_norm) {
  auto [x, y] = synthetic_batch(8, 3, 4);
  Tensor w = parameter("w", {3, 4}, normal(0.5)), b = parameter("b", {4}, normal(0.5));
  minimize(cross_entropy(matmul(x, w) + b, y), SGD{.learning_rate = rate, .momentum = 0, .clip_norm = clip_norm});
}

Program program_of(const std::function<void()>& builder, const Settings& settings = {}) {
  Trace trace("model.cpp", settings);
  run_builder(trace, builder);
  return differentiate(trace);
}

const Settings told = {{"gradient_norm", "1"}};

struct Step {
  std::map<std::string, double> metrics;
  double moved = 0;  ///< norm of what parameters changed by
};

Step step_of(const Program& program) {
  Bindings leaves = initial_values(program, 3);
  for (const Node& node : program.nodes) {
    if (node.kind != NodeKind::input) continue;
    Array array(node.type.shape);
    for (size_t i = 0; i < array.values.size(); ++i) {
      const double u = philox_uniform(11, 1, uint64_t(i), 0);
      array.values[i] = node.type.dtype == DType::i32 ? std::floor(u * double(node.data.classes)) : 2 * u - 1;
    }
    leaves[node.id] = array;
  }
  const std::vector<Array> values = interpret(program, leaves, {5, 2});
  Step out;
  for (const NamedOutput& o : program.outputs)
    if (o.metric) out.metrics[o.name] = values[o.node].values[0];
  double squares = 0;
  for (const Update& u : program.updates)
    for (size_t i = 0; i < values[u.value].values.size(); ++i)
      squares += std::pow(values[u.value].values[i] - leaves[u.target].values[i], 2);
  out.moved = std::sqrt(squares);
  return out;
}

TEST(GradientNorm, IsTheNormOfAllGradientsBeforeTheyAreClipped) {
  const Step free = step_of(program_of([] { model_of(0); }, told));
  const double norm = free.metrics.at("gradient_norm");
  EXPECT_NEAR(norm, free.moved / rate, 1e-5 * norm);
  const double limit = 0.25 * norm;
  const Step clipped = step_of(program_of([&] { model_of(limit); }, told));
  EXPECT_NEAR(clipped.metrics.at("gradient_norm"), norm, 1e-6 * norm) << "it is told as it was";
  EXPECT_NEAR(clipped.moved / rate, limit, 1e-4 * limit);
}

TEST(GradientNorm, IsToldOnlyIfItIsAskedForAndCostsARootWhereGradientsAreClipped) {
  const Program silent = program_of([] { model_of(0.5); }), telling = program_of([] { model_of(0.5); }, told);
  EXPECT_EQ(silent.outputs.size(), 0u);
  ASSERT_EQ(telling.outputs.size(), 1u);
  EXPECT_EQ(telling.nodes.size(), silent.nodes.size() + 1) << "clipping has the sum of squares";
  EXPECT_EQ(telling[telling.outputs[0].node].tag(), "gradient_norm");
  EXPECT_EQ(telling.options.back().name, "gradient_norm");
  EXPECT_EQ(step_of(silent).moved, step_of(telling).moved);
}

TEST(GradientNorm, IsThatOfTheWholeBatchInTurnsAndOfSeveralBatches) {
  const double norm = step_of(program_of([] { model_of(0.5); }, told)).metrics.at("gradient_norm");
  const Program turns = program_of([] { model_of(0.5); }, {{"gradient_norm", "1"}, {"turns", "4"}});
  ASSERT_EQ(turns.outputs.size(), 1u);
  EXPECT_TRUE(turns.outputs[0].metric);
  EXPECT_NEAR(step_of(unrolled(turns)).metrics.at("gradient_norm"), norm, 1e-6 * norm);
  const Step batches = step_of(program_of([] { model_of(0); }, {{"gradient_norm", "1"}, {"micro_batches", "3"}}));
  EXPECT_NEAR(batches.metrics.at("gradient_norm"), batches.moved / rate, 1e-5) << "of the sum over batches";
}

TEST(GradientNorm, IsThatOfEachGroup) {
  const Program program = program_of(
      [] {
        auto [x, y] = synthetic_batch(8, 3, 4);
        Tensor a = parameter("a.w", {3, 4}, normal(0.5)), b = parameter("b.w", {3, 4}, normal(0.5));
        minimize(cross_entropy(matmul(x, a), y), SGD{.learning_rate = rate, .momentum = 0},
                 {.name = "a", .parameters = "a"});
        minimize(cross_entropy(matmul(x, b), y), SGD{.learning_rate = rate, .momentum = 0},
                 {.name = "b", .parameters = "b"});
      },
      told);
  const Step step = step_of(program);
  const double a = step.metrics.at("gradient_norm.a"), b = step.metrics.at("gradient_norm.b");
  EXPECT_NEAR(std::hypot(a, b), step.moved / rate, 1e-5);
}

TEST(GradientNorm, SaysWhatCannotBe) {
  const auto said = [](const std::function<void()>& builder, const Settings& settings) {
    return error_of([&] { program_of(builder, settings); });
  };
  EXPECT_THAT(said([] { model_of(0); }, {{"gradient_norm", "yes"}}),
              AllOf(HasSubstr("[gradient_norm] this setting has one value"), HasSubstr("\"yes\"")));
  EXPECT_THAT(said(
                  [] {
                    Tensor w = parameter("w", {3}, normal(0.5));
                    metric("gradient_norm", mean(w));
                    minimize(mean(w * w), SGD{});
                  },
                  told),
              AllOf(HasSubstr("the model has an output or a metric named gradient_norm itself"),
                    HasSubstr("leave --gradient-norm out")));
}

}  // namespace
}  // namespace hetsynth
