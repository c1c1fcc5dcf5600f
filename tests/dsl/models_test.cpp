// The example models, traced natively: gradients against finite differences, every node's space, optimizers against
// their formulas.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <sstream>
#include <string>

#include "dsl/include/hetsynth/hetsynth.h"
#include "dsl/transform/differentiate.h"
#include "tests/dsl/operator_testing.h"
#include "tests/support/golden.h"

namespace gpt_example {
#include "examples/gpt.cpp"
}
namespace mlp_example {
#include "examples/mlp.cpp"
}

namespace hetsynth {
namespace {

using Settings = std::map<std::string, std::string>;

const Settings tiny_gpt = {{"layers", "1"}, {"heads", "2"}, {"width", "4"}, {"batch", "2"}, {"seq", "3"}};
const Settings tiny_mlp = {{"context", "3"}, {"width", "2"}, {"hidden", "5"}, {"batch", "4"}};

/// The forward program, and the gradients of its loss by every parameter, in the order of the parameters.
struct ForwardAndGradients {
  Program program;
  std::vector<NodeId> parameters, gradients;
};

ForwardAndGradients trace_gradients(void (*model)(), const Settings& settings) {
  Trace trace("model.cpp", settings);
  run_builder(trace, model);
  ForwardAndGradients out;
  std::vector<Tensor> by;
  for (const Node& node : trace.program.nodes) {
    if (node.kind != NodeKind::parameter) continue;
    by.push_back(Tensor(node.id));
    out.parameters.push_back(node.id);
  }
  for (Tensor gradient : gradients(Tensor(trace.program.loss), by)) out.gradients.push_back(gradient.node());
  out.program = trace.program;
  return out;
}

Program training_step(void (*model)(), const Settings& settings) {
  Trace trace("model.cpp", settings);
  run_builder(trace, model);
  return differentiate(trace);
}

/// Values of every node with the given leaf element moved.
double loss_at(const Program& program, Bindings leaves, NodeId leaf, size_t element, double offset) {
  leaves.at(leaf).values[element] += offset;
  Program forward = program;  // nodes are in order: those after the loss are not needed for it
  forward.nodes.resize(size_t(program.loss) + 1);
  return interpret(forward, leaves, {.seed = 9, .step = 2})[program.loss].values[0];
}

void expect_true_gradients(void (*model)(), const Settings& settings) {
  ForwardAndGradients traced = trace_gradients(model, settings);
  std::mt19937 random(7);
  Bindings leaves = spread_leaves(traced.program, random);
  std::vector<Array> values = interpret(traced.program, leaves, {.seed = 9, .step = 2});
  for (size_t p = 0; p < traced.parameters.size(); ++p) {
    const Node& parameter = traced.program[traced.parameters[p]];
    ASSERT_GE(traced.gradients[p], 0) << parameter.name;
    const Array& found = values[traced.gradients[p]];
    ASSERT_EQ(found.shape, parameter.type.shape) << parameter.name;
    for (int draw = 0; draw < 4; ++draw) {
      size_t i = random() % found.values.size();
      constexpr double h = 1e-5;
      double expected =
          (loss_at(traced.program, leaves, parameter.id, i, h) - loss_at(traced.program, leaves, parameter.id, i, -h)) /
          (2 * h);
      // Rounding of a loss of about 10 divided by h, and h^2 times third derivatives of a deep function.
      EXPECT_NEAR(found.values[i], expected, 2e-6 * std::max(1.0, std::abs(expected)))
          << parameter.name << "[" << i << "]";
    }
  }
}

TEST(Models, GradientsOfGptEqualFiniteDifferences) { expect_true_gradients(gpt_example::model, tiny_gpt); }

TEST(Models, GradientsOfGptWithDropoutEqualFiniteDifferences) {
  Settings settings = tiny_gpt;
  settings["dropout"] = "0.3";
  expect_true_gradients(gpt_example::model, settings);
}

TEST(Models, GradientsOfMlpEqualFiniteDifferences) { expect_true_gradients(mlp_example::model, tiny_mlp); }

void expect_sound_nodes(void (*model)(), const Settings& settings) {
  Program program = training_step(model, settings);
  std::mt19937 random(11);
  EvaluationContext context{.seed = 3, .step = 5};
  std::vector<Array> values = interpret(program, spread_leaves(program, random), context);
  for (const Node& node : program.nodes) {
    if (node.leaf()) continue;
    EXPECT_EQ(check_type(node, values), "") << node.name;
    EXPECT_EQ(check_linearity(node, values, context, random), "") << node.name;
    for (int draw = 0; draw < 3; ++draw) EXPECT_EQ(check_splits(node, values, context, random), "") << node.name;
  }
}

TEST(Models, EveryNodeOfGptSplits) { expect_sound_nodes(gpt_example::model, tiny_gpt); }
TEST(Models, EveryNodeOfMlpSplits) { expect_sound_nodes(mlp_example::model, tiny_mlp); }

/// Carries the updates of a step over to the leaves of the next.
double train_step(const Program& program, Bindings& leaves, int64_t step) {
  std::vector<Array> values = interpret(program, leaves, {.seed = 1, .step = step});
  for (const Update& update : program.updates) leaves[update.target] = values[update.value];
  return values[program.loss].values[0];
}

TEST(Models, MlpLearnsABatchByHeart) {
  Settings settings = tiny_mlp;
  settings["lr"] = "0.05";
  Program program = training_step(mlp_example::model, settings);
  std::mt19937 random(3);
  Bindings leaves = initial_values(program, 1);
  for (auto& [node, value] : spread_leaves(program, random))
    if (program[node].kind == NodeKind::input) leaves[node] = value;
  double first = train_step(program, leaves, 0), last = 0;
  EXPECT_NEAR(first, std::log(256), 0.05);  // all bytes about equally likely at the start
  for (int64_t step = 1; step < 30; ++step) last = train_step(program, leaves, step);
  EXPECT_LT(last, 1.0);
}

TEST(Models, GptHasTheParametersOfItsSizes) {
  Program program = training_step(gpt_example::model, {{"layers", "2"}, {"width", "8"}, {"heads", "2"}, {"seq", "5"}});
  int64_t block = 4 * 8 * 8 + (8 * 32 + 32) + (32 * 8 + 8) + 2 * (8 + 8);
  EXPECT_EQ(program.parameter_count(), 256 * 8 + 5 * 8 + 2 * block + 2 * 8);
}

TEST(Models, OutputsAreReadWithoutDropout) {
  Settings settings = tiny_gpt;
  settings["dropout"] = "0.3";
  Program with = training_step(gpt_example::model, settings), without = training_step(gpt_example::model, tiny_gpt);
  EXPECT_EQ(hash_text(restrict_to_output(with, "logits")), hash_text(restrict_to_output(without, "logits")));
  EXPECT_NE(hash_text(with), hash_text(without));
}

TEST(Models, TheTrainingStepOfMlpIsAsReviewed) {
  std::string step;
  std::istringstream lines(
      text(training_step(mlp_example::model, {{"batch", "64"}, {"width", "24"}, {"hidden", "96"}})));
  for (std::string line; std::getline(lines, line);) step += line.substr(0, line.find("  # ")) + "\n";
  testing::expect_golden("mlp_step.txt", step);
}

/// One parameter of three elements, loss = sum(p * g): its gradient is g.
Program one_parameter(const std::function<void(Tensor)>& minimise) {
  Trace trace("model.cpp");
  run_builder(trace, [&] {
    Tensor p = parameter("p", {3, 1}, zeros());
    Tensor g = Trace::current().add_leaf(NodeKind::input, "g", {{3, 1}, DType::f32}, std::source_location::current());
    minimise(sum(p * g));
  });
  return differentiate(trace);
}

Bindings start(const Program& program, const std::vector<double>& p, const std::vector<double>& g) {
  Bindings leaves;
  for (const Node& node : program.nodes) {
    if (!node.leaf()) continue;
    leaves[node.id] = Array(node.type.shape);
    if (node.name == "p") leaves[node.id].values = p;
    if (node.name == "g") leaves[node.id].values = g;
  }
  return leaves;
}

const std::vector<double>& value_of(const Program& program, const Bindings& leaves, const std::string& name) {
  for (const Node& node : program.nodes)
    if (node.leaf() && node.name == name) return leaves.at(node.id).values;
  throw std::out_of_range(name);
}

TEST(Optimizers, AdamWFollowsItsFormulaWithWarmUpAndClipping) {
  AdamW o{.learning_rate = 0.1,
          .beta1 = 0.8,
          .beta2 = 0.9,
          .epsilon = 1e-3,
          .weight_decay = 0.05,
          .warmup_steps = 4,
          .clip_norm = 2};
  Program program = one_parameter([&](Tensor loss) { minimize(loss, o); });
  std::vector<double> p = {0.5, -1, 2}, g = {3, 0, -4}, m(3, 0.0), v(3, 0.0);
  Bindings leaves = start(program, p, g);
  double scale = 2 / (5 + 1e-6);  // the norm of g is 5
  for (int t = 1; t <= 6; ++t) {
    train_step(program, leaves, t - 1);
    double rate = 0.1 * std::min(1.0, t / 4.0);
    for (int i = 0; i < 3; ++i) {
      m[i] = 0.8 * m[i] + 0.2 * scale * g[i];
      v[i] = 0.9 * v[i] + 0.1 * scale * g[i] * scale * g[i];
      double direction = m[i] / (1 - std::pow(0.8, t)) / (std::sqrt(v[i] / (1 - std::pow(0.9, t))) + 1e-3);
      p[i] -= rate * (direction + 0.05 * p[i]);
      // The same formula in double: only the order of roundings differs.
      EXPECT_NEAR(value_of(program, leaves, "p")[i], p[i], 1e-12) << "step " << t;
      EXPECT_NEAR(value_of(program, leaves, "p.m")[i], m[i], 1e-12);
      EXPECT_NEAR(value_of(program, leaves, "p.v")[i], v[i], 1e-12);
    }
  }
}

TEST(Optimizers, WeightDecayLeavesVectorsAlone) {
  auto decays = [](const Dims& shape) {
    Trace trace("model.cpp");
    run_builder(trace, [&] { minimize(sum(parameter("p", shape, ones())), AdamW{.weight_decay = 0.5}); });
    return text(differentiate(trace)).find("0.5 * in0") != std::string::npos;
  };
  EXPECT_TRUE(decays({2, 3}));
  EXPECT_FALSE(decays({6}));
}

TEST(Optimizers, SgdFollowsItsFormula) {
  for (double momentum : {0.0, 0.9})
    for (double clip : {0.0, 1.0}) {
      SGD o{.learning_rate = 0.1, .momentum = momentum, .clip_norm = clip};
      Program program = one_parameter([&](Tensor loss) { minimize(loss, o); });
      std::vector<double> p = {0.5, -1, 2}, g = {3, 0, -4}, v(3, 0.0);
      Bindings leaves = start(program, p, g);
      double scale = clip > 0 ? clip / (5 + 1e-6) : 1;
      for (int t = 0; t < 4; ++t) {
        train_step(program, leaves, t);
        for (int i = 0; i < 3; ++i) {
          v[i] = momentum * v[i] + scale * g[i];
          p[i] -= 0.1 * v[i];
          EXPECT_NEAR(value_of(program, leaves, "p")[i], p[i], 1e-12);  // double against double
        }
      }
    }
}

TEST(Optimizers, ClippingScalesAllGradientsByTheirCommonNorm) {
  Trace trace("model.cpp");
  auto here = std::source_location::current();
  Tensor a = trace.add_leaf(NodeKind::parameter, "a", {{2}, DType::f32}, here);
  Tensor b = trace.add_leaf(NodeKind::parameter, "b", {{1, 1}, DType::f32}, here);
  std::vector<Tensor> clipped = clip_by_global_norm({a, b}, 6.5);
  Bindings leaves = {{a.node(), Array({2})}, {b.node(), Array({1, 1})}};
  leaves[a.node()].values = {3, 4};
  leaves[b.node()].values = {12};
  std::vector<Array> values = interpret(trace.program, leaves, {});
  EXPECT_NEAR(values[clipped[0].node()].values[1], 2, 1e-6);  // the norm is 13, and 1e-6 is added to it
  EXPECT_NEAR(values[clipped[1].node()].values[0], 6, 1e-6);
  leaves[b.node()].values = {0};
  EXPECT_EQ(interpret(trace.program, leaves, {})[clipped[0].node()].values[1], 4) << "short gradients stay as they are";
}

}  // namespace
}  // namespace hetsynth
