// Gating, dispatch and combination against a queue kept by hand, and what a user is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "dsl/include/hetsynth/hetsynth.h"
#include "dsl/ir/interpreter.h"
#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "tests/support/error_of.h"
#include "tests/support/fresh_parameter.h"

namespace hetsynth {
namespace {

using ::testing::HasSubstr;
using Values = std::vector<double>;

constexpr double exact = 1e-12;  // double against double: only the order of a few roundings differs

/// Random logits and tokens of one group, routed by a program and by hand.
struct Case {
  int64_t groups, tokens, experts, width;
  double factor;
};

class Gating : public ::testing::TestWithParam<Case> {
 protected:
  Tensor leaf(const Shape& shape) {
    Tensor t = fresh_parameter(shape);
    Array array(shape);
    for (double& v : array.values) v = std::normal_distribution<>(0, 1)(random_);
    leaves_[t.node()] = std::move(array);
    return t;
  }
  const Values& value(Tensor t) {
    if (values_.empty()) values_ = interpret(trace_.program, leaves_, {});
    return values_[size_t(t.node())].values;
  }

  Case c_ = GetParam();
  std::mt19937 random_{17};
  Trace trace_{"model.cpp"};
  Bindings leaves_;
  std::vector<Array> values_;
};

struct Choice {
  int expert;
  double probability;
};

/// The experts of one token by falling probability.
std::vector<Choice> ranked(const double* logits, int64_t experts) {
  double total = 0;
  for (int e = 0; e < experts; ++e) total += std::exp(logits[e]);
  std::vector<Choice> out;
  for (int e = 0; e < experts; ++e) out.push_back({e, std::exp(logits[e]) / total});
  std::stable_sort(out.begin(), out.end(),
                   [](const Choice& a, const Choice& b) { return a.probability > b.probability; });
  return out;
}

TEST_P(Gating, FollowsQueuesKeptByHand) {
  Tensor logits = leaf({c_.groups, c_.tokens, c_.experts}), x = leaf({c_.groups, c_.tokens, c_.width});
  Tensor scale = leaf({c_.experts, 1, 1});  // expert e answers with scale[e] times what it is given
  for (int choices : {1, 2, 3, 4}) {
    if (choices > c_.experts) continue;
    Routing routing = choices == 1   ? top1_gating(logits, c_.factor)
                      : choices == 2 ? top2_gating(logits, c_.factor)
                                     : top_k_gating(logits, choices, c_.factor);
    Tensor queues = expert_dispatch(x, routing);
    Tensor answers = expert_combine(queues * scale, routing);
    values_.clear();
    ASSERT_EQ(routing.capacity,
              std::min<int64_t>(c_.tokens, int64_t(choices * c_.factor * double(c_.tokens) / double(c_.experts))));
    Values expected_queues(value(queues).size(), 0), expected_answers(value(answers).size(), 0);
    double balance = 0;
    int dropped = 0;
    for (int64_t g = 0; g < c_.groups; ++g) {
      std::vector<int64_t> length(size_t(c_.experts), 0), first_choices(size_t(c_.experts), 0);
      std::vector<double> probability(size_t(c_.experts), 0);
      for (int k = 0; k < choices; ++k)
        for (int64_t s = 0; s < c_.tokens; ++s) {
          const int64_t token = g * c_.tokens + s;
          const std::vector<Choice> order = ranked(&value(logits)[size_t(token * c_.experts)], c_.experts);
          const int e = order[size_t(k)].expert;
          if (k == 0) {
            ++first_choices[size_t(e)];
            for (const Choice& choice : order) probability[size_t(choice.expert)] += choice.probability;
          }
          const int64_t place = length[size_t(e)]++;
          if (place >= routing.capacity) {
            ++dropped;
            continue;
          }
          double whole = choices == 1 ? 1 : 0;
          for (int c = 0; choices > 1 && c < choices; ++c) whole += order[size_t(c)].probability;
          for (int64_t d = 0; d < c_.width; ++d) {
            const double feature = value(x)[size_t(token * c_.width + d)];
            const int64_t row = (g * c_.experts + e) * routing.capacity + place;
            expected_queues[size_t(row * c_.width + d)] = feature;
            expected_answers[size_t(token * c_.width + d)] +=
                order[size_t(k)].probability / whole * feature * value(scale)[size_t(e)];
          }
        }
      for (size_t e = 0; e < first_choices.size(); ++e)
        balance += double(c_.experts) * (double(first_choices[e]) / double(c_.tokens)) *
                   (probability[e] / double(c_.tokens)) / double(c_.groups);
    }
    EXPECT_THAT(value(queues), ::testing::Pointwise(::testing::DoubleNear(exact), expected_queues));
    EXPECT_THAT(value(answers), ::testing::Pointwise(::testing::DoubleNear(exact), expected_answers));
    EXPECT_NEAR(value(routing.balance_loss)[0], balance, exact);
    if (c_.factor < 1) {
      EXPECT_GT(dropped, 0) << "a case that is meant to drop tokens";
    }
  }
}

TEST_P(Gating, GradientsReachTokensGateAndExperts) {
  Tensor logits = leaf({c_.groups, c_.tokens, c_.experts}), x = leaf({c_.groups, c_.tokens, c_.width});
  Tensor scale = leaf({c_.experts, 1, c_.width});
  Routing routing = top_k_gating(logits, std::min<int64_t>(3, c_.experts), c_.factor);
  Tensor answers = expert_combine(tanh(expert_dispatch(x, routing)) * scale, routing);
  Tensor loss = sum(answers * answers) + routing.balance_loss;
  const std::vector<Tensor> by = {logits, x, scale};
  const std::vector<Tensor> found = gradients(loss, by);
  const std::vector<Array> values = interpret(trace_.program, leaves_, {});
  for (size_t j = 0; j < by.size(); ++j) {
    ASSERT_TRUE(found[j].defined());
    for (int draw = 0; draw < 6; ++draw) {
      Array& at = leaves_.at(by[j].node());
      const size_t i = random_() % at.values.size();
      constexpr double h = 1e-6;  // no two logits are as close as this: the choice stays
      const double before = at.values[i];
      auto loss_at = [&](double v) {
        at.values[i] = v;
        return interpret(trace_.program, leaves_, {})[size_t(loss.node())].values[0];
      };
      const double difference = (loss_at(before + h) - loss_at(before - h)) / (2 * h);
      at.values[i] = before;
      // h^2 times a third derivative, and rounding of a loss near 10 divided by h.
      EXPECT_NEAR(values[size_t(found[j].node())].values[i], difference, 1e-6 * std::max(1.0, std::abs(difference)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Gating,
                         ::testing::Values(Case{1, 7, 3, 2, 1.25}, Case{3, 8, 4, 3, 0.6}, Case{2, 6, 2, 1, 5},
                                           Case{2, 72, 4, 2, 0.9}, Case{1, 96, 3, 1, 1.25}));

TEST(GatingChoice, LowerNumbersWinTies) {
  Trace trace("model.cpp");
  Tensor logits = full({1, 3, 4}, 0.5);
  Routing routing = top2_gating(logits, 1);
  const std::vector<Array> values = interpret(trace.program, {}, {});
  ASSERT_EQ(routing.capacity, 1);
  EXPECT_THAT(values[size_t(routing.slots[0].node())].values, ::testing::ElementsAre(0, -1, -1));
  EXPECT_THAT(values[size_t(routing.slots[1].node())].values, ::testing::ElementsAre(1, -1, -1));
}

TEST(GatingErrors, SayWhatDoesNotFit) {
  Trace trace("model.cpp");
  auto tensor = [](const Dims& shape) { return fresh_parameter(shape); };
  std::string text = error_of([&] { top1_gating(tensor({2, 8, 64})); });
  EXPECT_THAT(text, HasSubstr("gating_test.cpp"));
  EXPECT_THAT(text, HasSubstr("[top1_gating] 64 experts are more than the tokens' capacity allows"));
  EXPECT_THAT(
      text, HasSubstr("expected: at most 10 experts: 1 of them for each of 8 tokens, times the capacity factor 1.25"));
  EXPECT_THAT(text, HasSubstr("found:    queues of 0.156 places"));
  EXPECT_THAT(text, HasSubstr("use fewer experts, longer groups of tokens, or a larger capacity factor"));
  EXPECT_EQ(error_of([&] { top2_gating(tensor({2, 8, 20})); }), "no error");
  EXPECT_THAT(error_of([&] {
                top2_gating(tensor({2, 8, 1}));
              }),
              HasSubstr("[top2_gating] there are fewer experts than a token chooses"));
  EXPECT_THAT(error_of([&] {
                top_k_gating(tensor({2, 8, 4}), 5);
              }),
              HasSubstr("[top_k_gating] there are fewer experts than a token chooses"));
  EXPECT_THAT(error_of([&] {
                top_k_gating(tensor({2, 8, 4}), 0);
              }),
              ::testing::AllOf(HasSubstr("[top_k_gating] a token goes to no expert"), HasSubstr("1 expert or more"),
                               HasSubstr("top_k_gating(logits, 4)")));
  EXPECT_THAT(error_of([&] { top1_gating(tensor({8})); }),
              HasSubstr("[top1_gating] argument 1 has too few dimensions"));
  EXPECT_THAT(error_of([&] { top1_gating(tensor({8, 4}), 0); }), HasSubstr("the capacity factor is out of range"));

  Routing routing = top1_gating(tensor({2, 8, 4}));
  EXPECT_THAT(error_of([&] {
                expert_dispatch(tensor({2, 7, 3}), routing);
              }),
              HasSubstr("[expert_dispatch] tokens do not fit the routing: [2,7,3] for [2,8]"));
  EXPECT_THAT(error_of([&] {
                expert_combine(tensor({2, 4, 3, 5}), routing);
              }),
              HasSubstr("[expert_combine] answers do not fit the routing: [2,4,3,5] for queues [2,4,2]"));
  for (const std::string& missing : {error_of([&] {
                                       expert_dispatch(tensor({2, 8, 3}), {});
                                     }),
                                     error_of([&] {
                                       expert_combine(tensor({4, 2, 3}), {});
                                     })})
    EXPECT_THAT(missing, HasSubstr("the routing was not made by a gate"));
}

TEST(Choices, NamedValuesAreTakenAndOthersRefused) {
  struct Size {
    int64_t layers, width;
  };
  auto chosen = [] { return choice<Size>("size", "base", {{"base", {12, 768}}, {"tiny", {2, 32}}}).layers; };
  {
    Trace trace("model.cpp");
    EXPECT_EQ(chosen(), 12);
  }
  {
    Trace trace("model.cpp", {{"size", "tiny"}});
    EXPECT_EQ(chosen(), 2);
    EXPECT_EQ(trace.program.options[0].value, "tiny");
  }
  Trace trace("model.cpp", {{"size", "huge"}});
  const std::string text = error_of([&] { chosen(); });
  EXPECT_THAT(text, HasSubstr("[option] size has no valid value"));
  EXPECT_THAT(text, HasSubstr("one of: base, tiny"));
}

}  // namespace
}  // namespace hetsynth
