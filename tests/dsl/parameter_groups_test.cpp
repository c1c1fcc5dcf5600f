// Several losses, each minimised by a group of parameters of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "dsl/ir/evaluation.h"
#include "dsl/transform/differentiate.h"
#include "tests/dsl/evaluation.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Settings = std::map<std::string, std::string>;

const ParameterGroup of_a{.name = "first", .parameters = "a"}, of_b{.name = "second", .parameters = "b"};

ParameterGroup in_turn(ParameterGroup group, int64_t steps) {
  group.steps = steps;
  return group;
}

/// Losses (a b - 1)^2 of a and (a + b^2)^2 of b.
template <class First, class Second>
Program game(const First& first, const Second& second, const ParameterGroup& group_a = of_a,
             const ParameterGroup& group_b = of_b, const Settings& settings = {}) {
  Trace trace("model.cpp", settings);
  run_builder(trace, [&] {
    Tensor a = parameter("a", {1}, constant_init(0.5)), b = parameter("b", {1}, constant_init(-0.75));
    minimize(sum(square(a * b - 1)), first, group_a);
    minimize(sum(square(a + b * b)), second, group_b);
  });
  return differentiate(trace);
}

double gradient_a(double a, double b) { return 2 * (a * b - 1) * b; }
double gradient_b(double a, double b) { return 2 * (a + b * b) * 2 * b; }

/// a and b after each of so many steps.
std::vector<std::pair<double, double>> trained(const Program& program, int steps) {
  Bindings leaves = initial_values(program, 0);
  std::vector<std::pair<double, double>> out;
  for (int step = 0; step < steps; ++step) {
    const std::vector<Array> values = interpret(program, leaves, {0, step});
    for (const Update& update : program.updates) leaves[update.target] = values[size_t(update.value)];
    std::map<std::string, double> now;
    for (const Node& node : program.nodes)
      if (node.kind == NodeKind::parameter) now[node.name] = leaves[node.id].values[0];
    out.emplace_back(now.at("a"), now.at("b"));
  }
  return out;
}

void expect_near(const std::vector<std::pair<double, double>>& found,
                 const std::vector<std::pair<double, double>>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i].first, wanted[i].first, 1e-9) << "a after step " << i;
    EXPECT_NEAR(found[i].second, wanted[i].second, 1e-9) << "b after step " << i;
  }
}

/// Adam by its formulas, which counts the steps that it takes itself.
struct AdamByHand {
  double rate, beta1 = 0.9, beta2 = 0.999, m = 0, v = 0;
  int t = 0;
  double step(double p, double g, double factor = 1) {
    ++t;
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    return p - rate * factor * (m / (1 - std::pow(beta1, t))) / (std::sqrt(v / (1 - std::pow(beta2, t))) + 1e-8);
  }
};

TEST(ParameterGroups, EachFollowsItsOwnLossFromWhatTheStepBeganWith) {
  const Program program = game(SGD{.learning_rate = 0.1, .momentum = 0}, SGD{.learning_rate = 0.03, .momentum = 0});
  std::vector<std::pair<double, double>> wanted;
  double a = 0.5, b = -0.75;
  for (int i = 0; i < 5; ++i) {
    const double next_a = a - 0.1 * gradient_a(a, b), next_b = b - 0.03 * gradient_b(a, b);
    a = next_a, b = next_b;
    wanted.emplace_back(a, b);
  }
  expect_near(trained(program, 5), wanted);
}

TEST(ParameterGroups, HaveOptimizersOfTheirOwn) {
  const Program program = game(Adam{.learning_rate = 0.1, .beta1 = 0.5}, SGD{.learning_rate = 0.05, .momentum = 0.9});
  AdamByHand adam{.rate = 0.1, .beta1 = 0.5};
  std::vector<std::pair<double, double>> wanted;
  double a = 0.5, b = -0.75, velocity = 0;
  for (int i = 0; i < 6; ++i) {
    const double ga = gradient_a(a, b);
    velocity = 0.9 * velocity + gradient_b(a, b);
    a = adam.step(a, ga), b -= 0.05 * velocity;
    wanted.emplace_back(a, b);
  }
  expect_near(trained(program, 6), wanted);
  std::set<std::string> states;
  for (const Node& node : program.nodes)
    if (node.kind == NodeKind::state) states.insert(node.name);
  EXPECT_THAT(states, ElementsAre("a.m", "a.v", "b.velocity"));
}

/// Bias correction, warm-up and schedule of a group count its own steps, and its moments rest in those of others.
TEST(ParameterGroups, TakeTurns) {
  const Adam first{.learning_rate = 0.1, .warmup_steps = 3},
      second{.learning_rate = 0.05, .schedule = step_schedule(2, 0.5)};
  const Program program = game(first, second, in_turn(of_a, 2), in_turn(of_b, 3));
  AdamByHand of_first{.rate = 0.1}, of_second{.rate = 0.05};
  std::vector<std::pair<double, double>> wanted;
  double a = 0.5, b = -0.75;
  for (int i = 0; i < 17; ++i) {
    if (i % 5 < 2)
      a = of_first.step(a, gradient_a(a, b), std::min(1.0, (of_first.t + 1) / 3.0));
    else
      b = of_second.step(b, gradient_b(a, b), std::pow(0.5, of_second.t / 2));
    wanted.emplace_back(a, b);
  }
  EXPECT_EQ(of_first.t, 8);
  EXPECT_EQ(of_second.t, 9);
  expect_near(trained(program, 17), wanted);
}

TEST(ParameterGroups, WithOneStepEachAlternate) {
  const SGD plain{.learning_rate = 0.1, .momentum = 0};
  std::vector<std::pair<double, double>> wanted;
  double a = 0.5, b = -0.75;
  for (int i = 0; i < 6; ++i) {
    if (i % 2 == 0)
      a -= 0.1 * gradient_a(a, b);
    else
      b -= 0.1 * gradient_b(a, b);  // a is what the step before made of it
    wanted.emplace_back(a, b);
  }
  expect_near(trained(game(plain, plain, in_turn(of_a, 1), in_turn(of_b, 1)), 6), wanted);
}

TEST(ParameterGroups, TellTheFirstLossAsTheStepsAndOthersByTheirGroup) {
  const Program program = game(SGD{}, SGD{});
  const std::vector<Array> values = interpret(program, initial_values(program, 0), {});
  EXPECT_NEAR(values[size_t(program.loss)].values[0], std::pow(0.5 * -0.75 - 1, 2), 1e-12);
  ASSERT_EQ(program.outputs.size(), 1u);
  EXPECT_EQ(program.outputs[0].name, "second");
  EXPECT_TRUE(program.outputs[0].metric);
  EXPECT_NEAR(values[size_t(program.outputs[0].node)].values[0], std::pow(0.5 + 0.75 * 0.75, 2), 1e-12);
  const Program evaluated = game(SGD{}, SGD{}, of_a, of_b, {{std::string(evaluation_setting), "1"}});
  EXPECT_TRUE(evaluated.updates.empty());
  ASSERT_EQ(evaluated.outputs.size(), 1u);
  EXPECT_EQ(evaluated.outputs[0].name, "second");
}

/// No gradient of one group's loss is computed for the parameters of another, nor for what only leads to them.
TEST(ParameterGroups, ComputeNoGradientsForOthers) {
  Trace trace("model.cpp");
  Tensor g = parameter("g", {3, 3}, normal(0.5)), d = parameter("d", {3, 1}, normal(0.5));
  Tensor hidden = tanh(matmul(random_normal({4, 3}), g));
  trace.set_name(hidden, "hidden", {});
  Tensor judged = matmul(hidden, d);
  minimize(mean(square(judged)), SGD{.momentum = 0}, {.name = "d", .parameters = "d"});
  minimize(mean(square(judged - 1)), SGD{.momentum = 0}, {.name = "g", .parameters = "g"});
  const Program program = differentiate(trace);
  int of_g = 0, of_d = 0, of_hidden = 0;
  for (const Node& node : program.nodes) {
    of_g += node.name == "d_g";
    of_d += node.name == "d_d";
    of_hidden += node.name == "d_hidden";
  }
  EXPECT_EQ(of_g, 1);
  EXPECT_EQ(of_d, 1);
  EXPECT_EQ(of_hidden, 1) << "on the second loss's way to g alone";
}

TEST(ParameterGroups, AccumulateOverMicroBatchesAndDivideByCounts) {
  const auto build = [](bool counted) {
    auto [x, labels] = synthetic_batch(6, 3, 2);
    Tensor a = parameter("a", {3}, normal(0.5)), b = parameter("b", {3}, normal(0.5));
    Tensor first = square(sum(x * a, 1) - 1), second = square(sum(x * a * b, 1));
    if (counted) {
      Tensor count = sum(to_float(labels) + 1);
      minimize({sum(first), count}, SGD{.momentum = 0}, of_a);
      minimize({sum(second), count}, SGD{.momentum = 0}, of_b);
    } else {
      minimize(mean(first), SGD{.momentum = 0}, of_a);
      minimize(mean(second), SGD{.momentum = 0}, of_b);
    }
  };
  for (const bool counted : {false, true}) {
    // Two batches of 6 with the samples of one of 6, twice: means and quotients stay as they are.
    std::map<std::string, Values> one, two;
    for (auto* of : {&one, &two}) {
      Trace trace("model.cpp", of == &two ? Settings{{"micro_batches", "2"}} : Settings{});
      run_builder(trace, [&] { build(counted); });
      const Program program = differentiate(trace);
      Bindings leaves = initial_values(program, 3);
      for (const Node& node : program.nodes) {
        if (node.kind != NodeKind::input) continue;
        Array array(node.type.shape);
        for (size_t i = 0; i < array.values.size(); ++i)
          array.values[i] = node.type.dtype == DType::i32 ? double(i % 2) : std::sin(double(i));
        leaves[node.id] = array;
      }
      const std::vector<Array> values = interpret(program, leaves, {});
      for (const Update& update : program.updates)
        (*of)[program[update.target].name] = values[size_t(update.value)].values;
      for (const NamedOutput& output : program.outputs) (*of)[output.name] = values[size_t(output.node)].values;
      (*of)["loss"] = values[size_t(program.loss)].values;
    }
    ASSERT_EQ(one.size(), 4u);
    for (const auto& [name, values] : one)
      for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(two.at(name)[i], values[i], 1e-9) << name;
  }
}

TEST(ParameterGroups, SkipStepsTogetherWhereAGradientOverflows) {
  Trace trace("model.cpp");
  run_builder(trace, [] {
    mixed_precision("bf16", DynamicLossScale{.initial = 4});
    Tensor a = parameter("a", {1}, constant_init(2)), b = parameter("b", {1}, constant_init(3));
    minimize(sum(a), SGD{.learning_rate = 1, .momentum = 0}, of_a);
    minimize(sum(b) / sum(1 - state("zero", {1}, ones())), SGD{.learning_rate = 1, .momentum = 0}, of_b);
  });
  const Program program = differentiate(trace);
  const std::vector<Array> values = interpret(program, initial_values(program, 0), {});
  for (const Update& update : program.updates) {
    if (program[update.target].name == "a") {
      EXPECT_THAT(values[size_t(update.value)].values, ElementsAre(2));
    }
    if (program[update.target].name == "loss_scale") {
      EXPECT_THAT(values[size_t(update.value)].values, ElementsAre(2));
    }
  }
}

std::string refused(const std::function<void()>& calls, const Settings& settings = {}) {
  return error_of([&] {
    Trace trace("model.cpp", settings);
    run_builder(trace, calls);
    differentiate(trace);
  });
}

TEST(ParameterGroups, MistakesAreTold) {
  Tensor a, b, c;
  const auto make = [&](bool third = false) {
    a = parameter("a", {1}, ones());
    b = parameter("b", {1}, ones());
    if (third) c = parameter("c", {1}, ones());
  };
  const auto two = [&](const ParameterGroup& first, const ParameterGroup& second, bool third = false) {
    return refused([&] {
      make(third);
      minimize(sum(square(a) + b), SGD{}, first);
      minimize(sum(square(b) + a), SGD{}, second);
    });
  };
  EXPECT_EQ(two(of_a, of_b), "no error");
  EXPECT_THAT(two(of_a, {}), AllOf(HasSubstr("parameter_groups_test.cpp:"), HasSubstr("this is the second call"),
                                   HasSubstr("a call without a group"), HasSubstr("add the losses up")));
  EXPECT_THAT(two({}, of_b), AllOf(HasSubstr("this is the second call"), HasSubstr("a first call without a group")));
  EXPECT_THAT(two(of_a, {.name = "first", .parameters = "b"}), HasSubstr("two groups are called first"));
  EXPECT_THAT(
      two(of_a, {.name = "second", .parameters = "[ab]"}),
      AllOf(HasSubstr("the parameter a is of two groups"), HasSubstr("\"a\" of first, and \"[ab]\" of second")));
  EXPECT_THAT(two(of_a, of_b, true), AllOf(HasSubstr("the parameter c is of no group"), HasSubstr("2 groups"),
                                           HasSubstr(".trainable = false")));
  EXPECT_THAT(
      two({.name = "first", .parameters = "[ab]"}, {.name = "second", .parameters = "x"}),
      AllOf(HasSubstr("the group second has no parameter"), HasSubstr("\"x\", which fits none of 2 parameters")));
  EXPECT_THAT(two(of_a, {.name = "second", .parameters = "b["}),
              AllOf(HasSubstr("the parameters of second are no pattern"), HasSubstr("\"b[\"")));
  EXPECT_THAT(two({.name = "first"}, of_b),
              AllOf(HasSubstr("a group needs a name, and a pattern"), HasSubstr("no pattern")));
  EXPECT_THAT(refused([&] {
                make();
                minimize(sum(a), SGD{}, {.parameters = "a"});
              }),
              AllOf(HasSubstr("a group needs a name"), HasSubstr("no name")));
  EXPECT_THAT(two(in_turn(of_a, 2), of_b), AllOf(HasSubstr("groups take turns, or are trained in every step"),
                                                 HasSubstr("2 steps of first, 0 of second")));
  EXPECT_THAT(two(in_turn(of_a, -1), of_b), HasSubstr("the steps of first are out of range"));
  EXPECT_THAT(refused([&] {
                make();
                minimize(sum(a), SGD{}, of_a);
                minimize(sum(a), SGD{}, of_b);
              }),
              HasSubstr("no parameter of second influences its loss"));
  EXPECT_THAT(refused([&] {
                make();
                output("second", a);
                minimize(sum(a), SGD{}, of_a);
                minimize(sum(b), SGD{}, of_b);
              }),
              HasSubstr("there are two metrics or outputs named second"));
  for (const char* name : {"b\nc", "b\"", "loss"})
    EXPECT_THAT(two(of_a, {.name = name, .parameters = "b"}), HasSubstr("cannot be called so")) << name;
  // What is frozen is of no group: those that have it alone are empty.
  const auto frozen = [&] {
    make(true);
    minimize(sum(a), SGD{}, of_a);
    minimize(sum(b * c), SGD{}, of_b);
  };
  EXPECT_EQ(refused(frozen, {{"freeze", "c"}}), "no error");
  EXPECT_THAT(refused(frozen, {{"freeze", "[bc]"}}),
              AllOf(HasSubstr("the group second has no parameter"), Not(HasSubstr("of no group"))));
}

/// One call may have a group, which then has to name all that is trained.
TEST(ParameterGroups, OneCallIsAllowed) {
  EXPECT_EQ(refused([] { minimize(sum(parameter("a", {1}, ones())), SGD{}, in_turn(of_a, 3)); }), "no error");
}

}  // namespace
}  // namespace hetsynth
