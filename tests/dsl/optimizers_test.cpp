// Optimizers and learning rates over several steps, against their papers' formulas in plain loops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "dsl/transform/differentiate.h"
#include "tests/dsl/evaluation.h"

namespace hetsynth {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

constexpr int64_t rows = 2, columns = 3;
const Values start = {0.5, -1, 2, 0.25, 1.5, -0.75};

/// Gradient of the loss below by every element of w.
Values gradient_at(const Values& w) {
  Values g;
  for (size_t i = 0; i < w.size(); ++i) g.push_back(2 * double(i + 1) * (w[i] - 0.1 * double(i)));
  return g;
}

/// w after each of `steps` steps on sum((i + 1) (w_i - i / 10)^2).
template <class Optimizer>
std::vector<Values> trained(const Optimizer& optimizer, int steps, const Dims& shape = {rows, columns}) {
  Trace trace("model.cpp");
  Tensor w = parameter("w", shape, zeros());
  auto constants = [&](double scale, double offset) {
    Tensor at = to_float(reshape(positions({rows * columns}, 0), shape));
    return at * scale + offset;
  };
  minimize(sum(constants(1, 1) * square(w - constants(0.1, 0))), optimizer);
  Program program = differentiate(trace);
  Bindings leaves = initial_values(program, 0);
  for (const Node& node : program.nodes)
    if (node.kind == NodeKind::parameter) leaves[node.id].values = start;
  std::vector<Values> out;
  for (int step = 0; step < steps; ++step) {
    std::vector<Array> values = interpret(program, leaves, {0, step});
    for (const Update& update : program.updates) leaves[update.target] = values[update.value];
    for (const Node& node : program.nodes)
      if (node.kind == NodeKind::parameter) out.push_back(leaves[node.id].values);
  }
  return out;
}

/// Steps of `next(w, g, t)`, t counted from 1.
std::vector<Values> by_hand(int steps, const std::function<Values(const Values&, const Values&, int)>& next) {
  std::vector<Values> out;
  Values w = start;
  for (int t = 1; t <= steps; ++t) out.push_back(w = next(w, gradient_at(w), t));
  return out;
}

void expect_equal(const std::vector<Values>& found, const std::vector<Values>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t s = 0; s < found.size(); ++s) EXPECT_THAT(found[s], Pointwise(DoubleNear(exact), expected[s])) << s;
}

double norm(const Values& x) { return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0)); }
double rms(const Values& x) { return norm(x) / std::sqrt(double(x.size())); }

/// Adam's bias-corrected direction; keeps its moments from call to call.
struct AdamMoments {
  Values m = Values(6, 0), v = Values(6, 0);
  Values direction(const Values& g, int t, double beta1, double beta2, double epsilon) {
    Values out(6);
    for (size_t i = 0; i < 6; ++i) {
      m[i] = beta1 * m[i] + (1 - beta1) * g[i];
      v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
      out[i] = m[i] / (1 - std::pow(beta1, t)) / (std::sqrt(v[i] / (1 - std::pow(beta2, t))) + epsilon);
    }
    return out;
  }
};

TEST(Optimizers, AdamPutsDecayIntoTheGradientAndAdamWDoesNot) {
  AdamMoments coupled, apart;
  expect_equal(trained(Adam{.learning_rate = 0.05, .weight_decay = 0.1}, 5), by_hand(5, [&](Values w, Values g, int t) {
                 for (size_t i = 0; i < 6; ++i) g[i] += 0.1 * w[i];
                 Values d = coupled.direction(g, t, 0.9, 0.999, 1e-8);
                 for (size_t i = 0; i < 6; ++i) w[i] -= 0.05 * d[i];
                 return w;
               }));
  expect_equal(trained(AdamW{.learning_rate = 0.05, .weight_decay = 0.1}, 5),
               by_hand(5, [&](Values w, Values g, int t) {
                 Values d = apart.direction(g, t, 0.9, 0.999, 1e-8);
                 for (size_t i = 0; i < 6; ++i) w[i] -= 0.05 * (d[i] + 0.1 * w[i]);
                 return w;
               }));
}

TEST(Optimizers, SgdWithMomentumNesterovDecayAndClipping) {
  for (bool nesterov : {false, true}) {
    Values v(6, 0);
    SGD options{.learning_rate = 0.01, .momentum = 0.8, .clip_norm = 3, .nesterov = nesterov, .weight_decay = 0.2};
    expect_equal(trained(options, 5), by_hand(5, [&](Values w, Values g, int) {
                   double scale = std::min(1.0, 3 / (norm(g) + 1e-6));
                   for (size_t i = 0; i < 6; ++i) {
                     double d = g[i] * scale + 0.2 * w[i];
                     v[i] = 0.8 * v[i] + d;
                     w[i] -= 0.01 * (nesterov ? d + 0.8 * v[i] : v[i]);
                   }
                   return w;
                 }));
  }
}

TEST(Optimizers, LambMovesByTheLengthOfTheParameter) {
  AdamMoments moments;
  expect_equal(trained(LAMB{.learning_rate = 0.1, .weight_decay = 0.3}, 5), by_hand(5, [&](Values w, Values g, int t) {
                 Values d = moments.direction(g, t, 0.9, 0.999, 1e-6);
                 for (size_t i = 0; i < 6; ++i) d[i] += 0.3 * w[i];
                 double ratio = norm(w) / norm(d);
                 for (size_t i = 0; i < 6; ++i) w[i] -= 0.1 * ratio * d[i];
                 return w;
               }));
}

TEST(Optimizers, AdafactorKeepsRowsAndColumns) {
  Values row(rows, 0), column(columns, 0);
  expect_equal(trained(Adafactor{}, 5), by_hand(5, [&](Values w, Values g, int t) {
                 double decay = 1 - std::pow(t, -0.8), mean = 0;
                 auto mean_square = [&](bool of_row, size_t at) {
                   double sum = 0;
                   for (size_t i = 0; i < size_t(of_row ? columns : rows); ++i) {
                     double x = of_row ? g[at * columns + i] : g[i * columns + at];
                     sum += x * x + 1e-30;
                   }
                   return sum / double(of_row ? columns : rows);
                 };
                 for (size_t r = 0; r < rows; ++r) {
                   row[r] = decay * row[r] + (1 - decay) * mean_square(true, r);
                   mean += row[r] / rows;
                 }
                 for (size_t c = 0; c < columns; ++c)
                   column[c] = decay * column[c] + (1 - decay) * mean_square(false, c);
                 Values d(6);
                 for (size_t r = 0; r < rows; ++r)
                   for (size_t c = 0; c < columns; ++c)
                     d[r * columns + c] = g[r * columns + c] / std::sqrt(row[r] * column[c] / mean);
                 // Numbers that something is compared with are float32.
                 double rate = std::min(double(0.01f), 1 / std::sqrt(t)) * std::max(double(1e-3f), rms(w)) /
                               std::max(1.0, rms(d));
                 for (size_t i = 0; i < 6; ++i) w[i] -= rate * d[i];
                 return w;
               }));
}

TEST(Optimizers, AdafactorOfAVectorKeepsEverySquare) {
  Values v(6, 0);
  Adafactor options{.learning_rate = 0.2, .scale_by_parameter = false};
  expect_equal(trained(options, 4, {rows * columns}), by_hand(4, [&](Values w, Values g, int t) {
                 double decay = 1 - std::pow(t, -0.8);
                 Values d(6);
                 for (size_t i = 0; i < 6; ++i) {
                   v[i] = decay * v[i] + (1 - decay) * (g[i] * g[i] + 1e-30);
                   d[i] = g[i] / std::sqrt(v[i]);
                 }
                 double rate = 0.2 / std::max(1.0, rms(d));
                 for (size_t i = 0; i < 6; ++i) w[i] -= rate * d[i];
                 return w;
               }));
}

TEST(Optimizers, StatesOfAdafactorAreSmall) {
  Trace trace("model.cpp");
  Tensor w = parameter("w", {5, 30, 40}, zeros());
  minimize(sum(w), Adafactor{});
  int64_t elements = 0;
  for (const Node& node : differentiate(trace).nodes)
    if (node.kind == NodeKind::state) elements += element_count(node.type.shape);
  EXPECT_EQ(elements, 5 * 30 + 5 * 40);
}

TEST(Schedules, FollowTheirFormulas) {
  auto rates = [](int64_t warmup, const Schedule& schedule) {
    Evaluation value;
    Tensor rate = learning_rate(2, warmup, schedule);
    Values out;
    for (int64_t s = 0; s < 14; ++s) out.push_back(value(rate, {0, s})[0]);
    return out;
  };
  auto formula = [](const std::function<double(double)>& f) {
    Values out;
    for (int s = 0; s < 14; ++s) out.push_back(2 * f(s));
    return out;
  };
  auto warm = [](double s, double w) { return std::min(1.0, (s + 1) / w); };
  auto way = [](double s) { return std::clamp((s - 4) / 6, 0.0, 1.0); };
  EXPECT_THAT(rates(0, {}), Pointwise(DoubleNear(exact), formula([](double) { return 1; })));
  EXPECT_THAT(rates(4, {}), Pointwise(DoubleNear(exact), formula([&](double s) { return warm(s, 4); })));
  EXPECT_THAT(rates(4, linear_schedule(10, 0.25)),
              Pointwise(DoubleNear(exact), formula([&](double s) { return warm(s, 4) * (1 - 0.75 * way(s)); })));
  EXPECT_THAT(rates(4, cosine_schedule(10, 0.5)),
              Pointwise(DoubleNear(exact),
                        formula([&](double s) { return warm(s, 4) * (0.5 + 0.25 * (1 + std::cos(M_PI * way(s)))); })));
  EXPECT_THAT(rates(0, step_schedule(5, 0.1)),
              Pointwise(DoubleNear(exact), formula([](double s) { return std::pow(0.1, std::floor(s / 5)); })));
  EXPECT_THAT(rates(0, exponential_schedule(0.9)),
              Pointwise(DoubleNear(exact), formula([](double s) { return std::pow(0.9, s); })));
  EXPECT_THAT(rates(4, inverse_sqrt_schedule()), Pointwise(DoubleNear(exact), formula([&](double s) {
                                                             return warm(s, 4) *
                                                                    std::sqrt(std::min(1.0, 4 / std::max(1.0, s)));
                                                           })));
}

TEST(Schedules, MoveEveryOptimizer) {
  Schedule halved = step_schedule(1, 0.5);
  Values first = trained(SGD{.learning_rate = 0.01, .momentum = 0}, 1)[0];
  Values second = trained(SGD{.learning_rate = 0.01, .momentum = 0, .schedule = halved}, 2)[1];
  Values g = gradient_at(first);
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(second[i], first[i] - 0.005 * g[i], exact);
  auto differs = [&](auto with) {
    auto without = with;
    without.schedule = {};
    std::vector<Values> a = trained(with, 2), b = trained(without, 2);
    EXPECT_EQ(a[0], b[0]);
    EXPECT_NE(a[1], b[1]);
  };
  differs(AdamW{.schedule = halved});
  differs(Adam{.schedule = halved});
  differs(LAMB{.schedule = halved});
  differs(Adafactor{.schedule = halved});
}

TEST(Optimizers, RefuseWhatMakesNoSense) {
  Trace trace("model.cpp");
  Tensor loss = sum(parameter("w", {2, 2}, zeros()));
  EXPECT_THAT(error_of([&] { minimize(loss, Adam{.beta1 = 1}); }), HasSubstr("[Adam] beta1 is out of range"));
  EXPECT_THAT(error_of([&] { minimize(loss, LAMB{.learning_rate = -1}); }), HasSubstr("[LAMB] learning_rate"));
  EXPECT_THAT(error_of([&] { minimize(loss, AdamW{.weight_decay = -1}); }), HasSubstr("[AdamW] weight_decay"));
  EXPECT_THAT(error_of([&] { minimize(loss, SGD{.momentum = 0, .nesterov = true}); }),
              HasSubstr("[SGD] momentum is out of range"));
  EXPECT_THAT(error_of([&] { minimize(loss, Adafactor{.learning_rate = -1}); }),
              HasSubstr("[Adafactor] learning_rate"));
  EXPECT_THAT(error_of([&] { minimize(loss, Adafactor{.clip_direction = 0}); }),
              HasSubstr("[Adafactor] clip_direction"));
  EXPECT_THAT(error_of([&] { minimize(loss, SGD{.warmup_steps = 10, .schedule = cosine_schedule(10)}); }),
              HasSubstr("[SGD] schedule.steps is out of range"));
  EXPECT_THAT(error_of([&] { minimize(loss, AdamW{.schedule = exponential_schedule(0)}); }),
              HasSubstr("[AdamW] schedule.factor is out of range"));
}

}  // namespace
}  // namespace hetsynth
