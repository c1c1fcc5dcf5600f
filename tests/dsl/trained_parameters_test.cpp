// Parameters that are trained otherwise than all others, or not at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "dsl/transform/differentiate.h"
#include "tests/dsl/evaluation.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using Settings = std::map<std::string, std::string>;

/// Two layers h0 and h1 and a head; sum of squares of what comes out.
Program layers(const Settings& settings = {}, const ParameterOptions& of_first = {}) {
  Trace trace("model.cpp", settings);
  run_builder(trace, [&] {
    auto [x, labels] = synthetic_batch(4, 3, 2);
    Tensor h = matmul(x, parameter("h0.w", {3, 5}, normal(0.5), of_first));
    h = tanh(h + parameter("h0.b", {5}, normal(0.5), of_first));
    h = tanh(matmul(h, parameter("h1.w", {5, 5}, normal(0.5))));
    Tensor y = matmul(h, parameter("head", {5, 2}, normal(0.5)));
    minimize(mean(square(y - one_hot(labels, 2))), AdamW{.learning_rate = 0.1, .clip_norm = 0.5});
  });
  return differentiate(trace);
}

std::set<std::string> updated(const Program& program) {
  std::set<std::string> names;
  for (const Update& update : program.updates) names.insert(program[update.target].name);
  return names;
}

std::set<std::string> leaves(const Program& program, NodeKind kind) {
  std::set<std::string> names;
  for (const Node& node : program.nodes)
    if (node.kind == kind) names.insert(node.name);
  return names;
}

TEST(TrainedParameters, FrozenOnesHaveNoGradientAndNoOptimizerState) {
  for (const Program& program :
       {layers({{"freeze", "h[0-9]+\\."}}), layers({{"freeze", "h0"}}, {.trainable = false})}) {
    const bool all_layers = updated(program).count("h1.w") == 0;
    if (all_layers) {
      EXPECT_THAT(updated(program), UnorderedElementsAre("head", "head.m", "head.v"));
    }
    EXPECT_THAT(leaves(program, NodeKind::parameter), UnorderedElementsAre("h0.w", "h0.b", "h1.w", "head"))
        << "checkpoints keep them";
    for (const Node& node : program.nodes) {
      EXPECT_THAT(node.name, ::testing::Not(HasSubstr("d_h0")));
      EXPECT_THAT(node.name, ::testing::Not(HasSubstr("h0.w.m")));
    }
  }
}

TEST(TrainedParameters, FrozenInTheModelAndOnTheCommandLineIsTheSame) {
  const Program model = layers({}, {.trainable = false});
  EXPECT_THAT(updated(model), UnorderedElementsAre("h1.w", "h1.w.m", "h1.w.v", "head", "head.m", "head.v"));
  EXPECT_EQ(hash_text(model), hash_text(layers({{"freeze", "h0\\.[wb]$"}})));
}

TEST(TrainedParameters, AllOthersGoOnAsWithoutThem) {
  // The step of a model in which the frozen ones stand as numbers: through stop_gradient.
  const Program frozen = layers({}, {.trainable = false});
  Trace trace("model.cpp");
  auto [x, labels] = synthetic_batch(4, 3, 2);
  Tensor h = matmul(x, stop_gradient(parameter("h0.w", {3, 5}, normal(0.5))));
  h = tanh(h + stop_gradient(parameter("h0.b", {5}, normal(0.5))));
  h = tanh(matmul(h, parameter("h1.w", {5, 5}, normal(0.5))));
  Tensor y = matmul(h, parameter("head", {5, 2}, normal(0.5)));
  minimize(mean(square(y - one_hot(labels, 2))), AdamW{.learning_rate = 0.1, .clip_norm = 0.5});
  const Program stopped = differentiate(trace);
  const auto step = [](const Program& program) {
    Bindings leaves = initial_values(program, 5);
    for (const Node& node : program.nodes) {
      if (node.kind != NodeKind::input) continue;
      Array array(node.type.shape);
      for (size_t i = 0; i < array.values.size(); ++i)
        array.values[i] = node.type.dtype == DType::i32 ? double(i % 2) : std::sin(double(i));
      leaves[node.id] = array;
    }
    const std::vector<Array> values = interpret(program, leaves, {});
    std::map<std::string, Values> out;
    for (const Update& update : program.updates) out[program[update.target].name] = values[size_t(update.value)].values;
    return out;
  };
  EXPECT_EQ(step(frozen), step(stopped));
}

TEST(TrainedParameters, APlanRemembersWhatWasFrozen) {
  const Program program = layers({{"freeze", "head"}});
  ASSERT_EQ(program.options.size(), 1u);
  EXPECT_EQ(program.options[0].name, "freeze");
  EXPECT_EQ(program.options[0].value, "head");
}

TEST(TrainedParameters, WrongPatternsAreTold) {
  EXPECT_THAT(error_of([] {
                layers({{"freeze", "encoder"}});
              }),
              AllOf(HasSubstr("model.cpp"), HasSubstr("[freeze] no parameter has a name that begins like this"),
                    HasSubstr("h0.w, h0.b, h1.w, head"), HasSubstr("\"encoder\"")));
  EXPECT_THAT(error_of([] {
                layers({{"freeze", "h"}});
              }),
              AllOf(HasSubstr("[freeze] every parameter is frozen"), HasSubstr("4 parameters, 4 of them by --freeze"),
                    HasSubstr("freeze less")));
  EXPECT_THAT(
      error_of([] {
        layers({{"freeze", "h[0-9"}});
      }),
      AllOf(HasSubstr("[freeze] this is no pattern of names"), HasSubstr("\"h[0-9\""), HasSubstr("h[0-9]+\\.")));
  EXPECT_THAT(error_of([] {
                Trace trace("model.cpp");
                minimize(sum(square(parameter("w", {2}, ones(), {.trainable = false}))), SGD{});
                differentiate(trace);
              }),
              AllOf(HasSubstr("[freeze] every parameter is frozen"), HasSubstr("leave out .trainable = false")));
}

TEST(TrainedParameters, WrongOptionsAreTold) {
  Trace trace("model.cpp");
  int line = 0;
  EXPECT_THAT(
      error_of([&] {
        line = __LINE__ + 1;
        parameter("w", {2}, zeros(), {.learning_rate_scale = 0});
      }),
      AllOf(HasSubstr("trained_parameters_test.cpp:"), HasSubstr("[parameter] learning_rate_scale is out of range"),
            HasSubstr("a finite number above 0"), HasSubstr("{.trainable = false}")));
  EXPECT_GT(line, 0);
  EXPECT_THAT(error_of([&] { parameter("w", {2}, zeros(), {.weight_decay = -0.1}); }),
              AllOf(HasSubstr("[parameter] weight_decay is out of range"), HasSubstr("-0.1"),
                    HasSubstr("leave it out to have the optimizer's")));
}

/// w and b after one step on sum(w) + sum(b), whose gradients are 1, from 2.
template <class Optimizer>
std::map<std::string, Values> after_step(const Optimizer& optimizer, const ParameterOptions& of_w,
                                         const ParameterOptions& of_b) {
  Trace trace("model.cpp");
  Tensor w = parameter("w", {1, 2}, constant_init(2), of_w), b = parameter("b", {2}, constant_init(2), of_b);
  minimize(sum(w) + sum(b), optimizer);
  const Program program = differentiate(trace);
  const std::vector<Array> values = interpret(program, initial_values(program, 0), {});
  std::map<std::string, Values> out;
  for (const Update& update : program.updates) out[program[update.target].name] = values[size_t(update.value)].values;
  return out;
}

TEST(TrainedParameters, LearningRateAndDecayOfTheirOwn) {
  const ParameterOptions slow{.learning_rate_scale = 0.5, .weight_decay = 0.2}, decays{.weight_decay = 0.4};
  const auto near = [](double wanted) {
    return ElementsAre(::testing::DoubleNear(wanted, 1e-7), ::testing::DoubleNear(wanted, 1e-7));
  };
  // p - rate scale (g + decay p), g = 1, p = 2.
  auto sgd = after_step(SGD{.learning_rate = 0.1, .momentum = 0, .weight_decay = 0.3}, slow, decays);
  EXPECT_THAT(sgd.at("w"), near(2 - 0.1 * 0.5 * (1 + 0.2 * 2)));
  EXPECT_THAT(sgd.at("b"), near(2 - 0.1 * (1 + 0.4 * 2))) << "a decay of its own goes for any rank";
  auto plain = after_step(SGD{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.3, .warmup_steps = 2}, slow, {});
  EXPECT_THAT(plain.at("w"), near(2 - 0.05 * 0.5 * (1 + 0.2 * 2)));
  EXPECT_THAT(plain.at("b"), near(2 - 0.05)) << "the optimizer's is of rank 2 and more";
  // Adam's first direction is the gradient's sign.
  for (const auto& [w, b] : {std::pair(after_step(AdamW{.learning_rate = 0.1}, slow, decays), 0.4)}) {
    EXPECT_THAT(w.at("w"), near(2 - 0.1 * 0.5 * (1 + 0.2 * 2)));
    EXPECT_THAT(w.at("b"), near(2 - 0.1 * (1 + b * 2)));
  }
  auto adam = after_step(Adam{.learning_rate = 0.1}, slow, {});
  EXPECT_THAT(adam.at("w"), near(2 - 0.1 * 0.5)) << "decay is part of the gradient, whose size does not count";
  EXPECT_THAT(adam.at("b"), near(2 - 0.1));
  // LAMB's step is as long as the parameter, here sqrt(8); its direction has equal elements.
  auto lamb = after_step(LAMB{.learning_rate = 0.1}, slow, decays);
  EXPECT_THAT(lamb.at("w"), near(2 - 0.1 * 0.5 * 2));
  EXPECT_THAT(lamb.at("b"), near(2 - 0.1 * (1 + 0.4 * 2)));
  auto fixed = after_step(Adafactor{.learning_rate = 0.1, .scale_by_parameter = false}, slow, decays);
  EXPECT_THAT(fixed.at("w"), near(2 - 0.1 * 0.5 * (1 + 0.2 * 2)));
  EXPECT_THAT(fixed.at("b"), near(2 - 0.1 * (1 + 0.4 * 2)));
}

}  // namespace
}  // namespace hetsynth
