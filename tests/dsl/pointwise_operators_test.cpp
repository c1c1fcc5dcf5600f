// Elementwise operators, normalisation and rotary positions: values by formulas written out here, and errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "dsl/transform/differentiate.h"
#include "tests/dsl/evaluation.h"

namespace hetsynth {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

Values of_each(const Values& x, double (*f)(double)) {
  Values out;
  for (double v : x) out.push_back(f(v));
  return out;
}

TEST(PointwiseOperators, FunctionsOfOneArgument) {
  Evaluation value;
  const Values at = {-30, -1.5, -0.25, 0.5, 2, 40};
  Tensor x = value.leaf({6}, at);
  auto expect = [&](Tensor y, double (*f)(double), double bound = exact) {
    EXPECT_THAT(value(y), Pointwise(DoubleNear(bound), of_each(at, f)));
  };
  expect(abs(x), [](double v) { return std::fabs(v); });
  expect(square(x), [](double v) { return v * v; });
  expect(erf(x), [](double v) { return std::erf(v); });
  expect(sin(x), [](double v) { return std::sin(v); });
  expect(cos(x), [](double v) { return std::cos(v); });
  expect(silu(x), [](double v) { return v / (1 + std::exp(-v)); });
  expect(softplus(x), [](double v) { return std::log1p(std::exp(v)); });
  expect(leaky_relu(x, 0.2), [](double v) { return v > 0 ? v : 0.2 * v; });
  expect(gelu_erf(x), [](double v) { return v * std::erfc(-v / std::sqrt(2)) / 2; });
  expect(clamp(x, -1, 1), [](double v) { return std::fmin(std::fmax(v, -1), 1); });
  expect(to_float(to_int(x)), [](double v) { return std::floor(v); });
  EXPECT_THAT(value(rsqrt(value.leaf({2}, {4, 0.25}))), ElementsAre(0.5, 2));
  EXPECT_THAT(value(softplus(value.leaf({2}, {-1000, 1000}))), ElementsAre(0, 1000));
  EXPECT_THAT(value(silu(value.leaf({2}, {-1000, 1000}))), ElementsAre(-0.0, 1000));
}

TEST(PointwiseOperators, Powers) {
  Evaluation value;
  Tensor x = value.leaf({3}, {1, 2, 4}), negative = value.leaf({2}, {-2, -3});
  EXPECT_THAT(value(pow(x, 1.5)), Pointwise(DoubleNear(exact), Values{1, std::sqrt(8), 8}));
  EXPECT_THAT(value(pow(x, -0.5)), Pointwise(DoubleNear(exact), Values{1, std::sqrt(0.5), 0.5}));
  EXPECT_THAT(value(pow(2, x)), ElementsAre(2, 4, 16));
  EXPECT_THAT(value(pow(x, x)), ElementsAre(1, 4, 256));
  EXPECT_THAT(value(pow(negative, 2)), ElementsAre(4, 9));
  EXPECT_THAT(value(pow(negative, 3)), ElementsAre(-8, -27));
  EXPECT_THAT(value(pow(negative, -1)), Pointwise(DoubleNear(exact), Values{-0.5, -1. / 3}));
}

TEST(PointwiseOperators, ComparisonsAndChoices) {
  Evaluation value;
  Tensor a = value.leaf({3}, {1, 2, 3}), b = value.leaf({3}, {2, 2, 2}), i = value.indices({3}, {0, 1, 2});
  EXPECT_THAT(value(less(a, b)), ElementsAre(1, 0, 0));
  EXPECT_THAT(value(less_equal(a, b)), ElementsAre(1, 1, 0));
  EXPECT_THAT(value(greater(a, b)), ElementsAre(0, 0, 1));
  EXPECT_THAT(value(greater_equal(a, 2)), ElementsAre(0, 1, 1));
  EXPECT_THAT(value(equal(2, a)), ElementsAre(0, 1, 0));
  EXPECT_THAT(value(not_equal(a, b)), ElementsAre(1, 0, 1));
  EXPECT_THAT(value(less(i, 1)), ElementsAre(1, 0, 0));
  EXPECT_THAT(value(equal(i, value.indices({1}, {2}))), ElementsAre(0, 0, 1));
  EXPECT_THAT(value(where(less(a, b), a, -1)), ElementsAre(1, -1, -1));
  EXPECT_THAT(value(where(i, a, b)), ElementsAre(2, 2, 3));
  EXPECT_THAT(value(where(i, 5, 6)), ElementsAre(6, 5, 5));
  EXPECT_THAT(value(gradients(sum(where(less(a, b), a * 3, b)), {a})[0]), ElementsAre(3, 0, 0));
}

TEST(PointwiseOperators, IndicesAndPositions) {
  Evaluation value;
  EXPECT_THAT(value(one_hot(value.indices({3}, {2, 0, 7}), 3)), ElementsAre(0, 0, 1, 1, 0, 0, 0, 0, 0));
  EXPECT_THAT(value(positions({2, 3}, -1)), ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_EQ(positions({2, 3}, 0).dtype(), DType::i32);
  EXPECT_THAT(value(to_float(positions({2, 2}, 0)) * 0.5), ElementsAre(0, 0, 0.5, 0.5));
  EXPECT_THAT(value(flip(value.counting({2, 3}), 1)), ElementsAre(2, 1, 0, 5, 4, 3));
  EXPECT_THAT(value(flip(value.counting({2, 3}), 0)), ElementsAre(3, 4, 5, 0, 1, 2));
}

TEST(PointwiseOperators, GradientsAtTheEdges) {
  Evaluation value;
  Tensor x = value.leaf({4}, {-1, 0, 1, 2});
  EXPECT_THAT(value(gradients(sum(abs(x)), {x})[0]), ElementsAre(-1, 0, 1, 1));
  EXPECT_THAT(value(gradients(sum(clamp(x, 0, 1)), {x})[0]), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(value(gradients(sum(leaky_relu(x, 0.5)), {x})[0]), ElementsAre(0.5, 0.5, 1, 1));
}

TEST(RmsNorm, DividesByTheRootOfTheMeanSquare) {
  Evaluation value;
  Tensor x = value.leaf({2, 2}, {1, 7, -3, 3}), gain = value.leaf({2}, {1, 2});
  double first = 1 / std::sqrt(25 + 1e-5), second = 1 / std::sqrt(9 + 1e-5);
  EXPECT_THAT(value(rms_norm(x, gain)),
              Pointwise(DoubleNear(exact), Values{first, 14 * first, -3 * second, 6 * second}));
}

TEST(RmsNorm, Gradient) {
  expect_gradient({2, 3}, {1, -2, 0.5, 0.3, 0.7, -1.1}, [](Evaluation& value, Tensor x) {
    Tensor gain = value.leaf({3}, {1, 2, -1}), weight = value.leaf({2, 3}, {1, 2, 3, 4, 5, 6});
    return sum(rms_norm(x, gain) * weight);
  });
  expect_gradient({3}, {1, 2, -1}, [](Evaluation& value, Tensor gain) {
    Tensor x = value.leaf({2, 3}, {1, -2, 0.5, 0.3, 0.7, -1.1}), weight = value.leaf({2, 3}, {1, 2, 3, 4, 5, 6});
    return sum(rms_norm(x, gain) * weight);
  });
}

TEST(Rotary, TurnsEachPairByPositionTimesRate) {
  const Values x = {1, 2, 3, 4, 5, 6, 7, 8};
  for (RotaryPairs pairs : {RotaryPairs::halves, RotaryPairs::adjacent}) {
    Evaluation value;
    Values expected(8);
    for (int position : {0, 1})
      for (int pair : {0, 1}) {
        double angle = position * std::pow(100.0, -pair / 2.0);
        int a = 4 * position + (pairs == RotaryPairs::halves ? pair : 2 * pair);
        int b = a + (pairs == RotaryPairs::halves ? 2 : 1);
        expected[size_t(a)] = x[size_t(a)] * std::cos(angle) - x[size_t(b)] * std::sin(angle);
        expected[size_t(b)] = x[size_t(b)] * std::cos(angle) + x[size_t(a)] * std::sin(angle);
      }
    EXPECT_THAT(value(rotary(value.leaf({2, 4}, x), 0, 100, pairs)), Pointwise(DoubleNear(exact), expected));
  }
}

TEST(Rotary, ScoresDependOnTheDistanceAlone) {
  Evaluation value;
  Tensor q = broadcast(value.leaf({4}, {1, -2, 0.5, 3}), {5, 4}), k = broadcast(value.leaf({4}, {2, 1, -1, 1}), {5, 4});
  Values scores = value(einsum("td,sd->ts", rotary(q, 0), rotary(k, 0)));
  for (int t = 1; t < 5; ++t)
    for (int s = 1; s < 5; ++s) EXPECT_NEAR(scores[size_t(5 * t + s)], scores[size_t(5 * (t - 1) + s - 1)], exact);
}

TEST(Rotary, Gradient) {
  for (RotaryPairs pairs : {RotaryPairs::halves, RotaryPairs::adjacent})
    expect_gradient({3, 2, 4}, Values(24, 0.5), [&](Evaluation& value, Tensor x) {
      return sum(rotary(x, 0, 10000, pairs) * value.counting({3, 2, 4}));
    });
}

class PointwiseErrors : public ::testing::Test {
 protected:
  Evaluation value;
  Tensor x = value.counting({2, 3}), i = value.indices({2, 3}, Values(6, 1));
};

TEST_F(PointwiseErrors, NameTypesAndMend) {
  EXPECT_THAT(error_of([&] { less(x, i); }), HasSubstr("[less] numbers and indices cannot be compared"));
  EXPECT_THAT(error_of([&] { less(x, i); }), HasSubstr("f32 and i32"));
  EXPECT_THAT(error_of([&] { less(x, i); }), HasSubstr("to_float(indices)"));
  EXPECT_THAT(error_of([&] { x + i; }), HasSubstr("to_float(indices)"));
  EXPECT_THAT(error_of([&] { where(x, i, x); }), HasSubstr("[where] argument 2 must hold numbers"));
  EXPECT_THAT(error_of([&] { one_hot(x, 3); }), HasSubstr("[one_hot] argument 1 must hold indices"));
  EXPECT_THAT(error_of([&] { silu(i); }), HasSubstr("[silu] argument 1 must hold numbers"));
}

TEST_F(PointwiseErrors, Shapes) {
  EXPECT_THAT(error_of([&] { equal(x, value.counting({2})); }), HasSubstr("[equal] shapes do not broadcast"));
  EXPECT_THAT(error_of([&] { one_hot(i, 0); }), HasSubstr("[one_hot] the result has an impossible shape"));
  EXPECT_THAT(error_of([&] { positions({2, 3}, 2); }), HasSubstr("[positions] there is no dimension 2"));
  EXPECT_THAT(error_of([&] { flip(x, -3); }), HasSubstr("[flip] there is no dimension -3"));
  EXPECT_THAT(error_of([&] { rms_norm(x, value.counting({2})); }),
              HasSubstr("[rms_norm] gain has another width than the tensor"));
  EXPECT_THAT(error_of([&] { rotary(x, 0); }), HasSubstr("[rotary] the last dimension does not fall into pairs"));
  EXPECT_THAT(error_of([&] { rotary(value.counting({3, 4}), 1); }), HasSubstr("are the same dimension"));
  EXPECT_THAT(error_of([&] { rotary(value.counting({3, 4}), 0, -1); }), HasSubstr("[rotary] base is out of range"));
}

TEST_F(PointwiseErrors, Limits) {
  EXPECT_THAT(error_of([&] { clamp(x, 1, 0); }), HasSubstr("[clamp] there is no number between the limits"));
  EXPECT_THAT(error_of([&] { clamp(x, NAN, 0); }), HasSubstr("[clamp]"));
}

}  // namespace
}  // namespace hetsynth
