// What operators compute, against formulas and numbers written out here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "dsl/include/hetsynth/hetsynth.h"
#include "dsl/transform/differentiate.h"
#include "tests/dsl/evaluation.h"

namespace hetsynth {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

TEST(OperatorValues, NumbersStandOnEitherSide) {
  Evaluation value;
  Tensor x = value.leaf({2}, {2, 4});
  EXPECT_THAT(value(1 - x), ElementsAre(-1, -3));
  EXPECT_THAT(value(x - 1.0f), ElementsAre(1, 3));
  EXPECT_THAT(value(8 / x), ElementsAre(4, 2));
  EXPECT_THAT(value(x / int64_t(2)), ElementsAre(1, 2));
  EXPECT_THAT(value(-x * 2 + size_t(1)), ElementsAre(-3, -7));
  EXPECT_THAT(value(add(1, 2)), ElementsAre(3));
  EXPECT_THAT(value(maximum(x, 3)), ElementsAre(3, 4));
  EXPECT_THAT(value(minimum(3, x)), ElementsAre(2, 3));
}

TEST(OperatorValues, Activations) {
  Evaluation value;
  Tensor x = value.leaf({3}, {-1, 0, 1});
  EXPECT_THAT(value(relu(x)), ElementsAre(0, 0, 1));
  EXPECT_THAT(value(tanh(x)), Pointwise(DoubleNear(exact), Values{-std::tanh(1), 0, std::tanh(1)}));
  EXPECT_THAT(value(sigmoid(x)), Pointwise(DoubleNear(exact), Values{1 / (1 + M_E), 0.5, M_E / (1 + M_E)}));
  // The approximation is within 3e-4 of x Phi(x), the function it stands for.
  EXPECT_THAT(value(gelu(x)), Pointwise(DoubleNear(3e-4), Values{-0.158655, 0, 0.841345}));
  EXPECT_THAT(value(gelu(x)), Pointwise(DoubleNear(1e-6), Values{-0.158808, 0, 0.841192}));  // six digits written here
}

TEST(OperatorValues, Reductions) {
  Evaluation value;
  Tensor x = value.counting({2, 3});
  EXPECT_THAT(value(sum(x)), ElementsAre(15));
  EXPECT_THAT(value(sum(x, 0)), ElementsAre(3, 5, 7));
  EXPECT_THAT(value(mean(x, -1)), ElementsAre(1, 4));
  EXPECT_THAT(value(max(x, {0, 1})), ElementsAre(5));
  EXPECT_EQ(sum(x, 1, true).shape(), (Dims{2, 1}));
  EXPECT_EQ(max(x, {}, true).shape(), (Dims{1, 1}));
  EXPECT_EQ(mean(value.counting({2, 3, 4}), {0, 2}).shape(), (Dims{3}));
}

TEST(OperatorValues, EqualMaximaShareTheGradient) {
  Evaluation value;
  Tensor x = value.leaf({4}, {7, 1, 7, 7});
  EXPECT_THAT(value(gradients(max(x), {x})[0]), Pointwise(DoubleNear(exact), Values{1. / 3, 0, 1. / 3, 1. / 3}));
  Tensor a = value.leaf({2}, {1, 5}), b = value.leaf({2}, {1, 4});
  EXPECT_THAT(value(gradients(sum(maximum(a, b)), {a})[0]), ElementsAre(0.5, 1));
  EXPECT_THAT(value(gradients(sum(minimum(a, b)), {a})[0]), ElementsAre(0.5, 0));
}

TEST(OperatorValues, ProductsOfMatrices) {
  Evaluation value;
  Tensor a = value.counting({2, 2, 3}), b = value.counting({3, 2}), c = value.counting({2, 3, 2});
  EXPECT_THAT(value(matmul(a, b)), ElementsAre(10, 13, 28, 40, 46, 67, 64, 94));
  EXPECT_THAT(value(matmul(a, c)), ElementsAre(10, 13, 28, 40, 172, 193, 244, 274));
  EXPECT_THAT(value(einsum("bmk, kn -> bnm", a, b)), ElementsAre(10, 28, 13, 40, 46, 64, 67, 94));
  EXPECT_THAT(value(einsum("bmk,kn->", a, b)), ElementsAre(10 + 13 + 28 + 40 + 46 + 67 + 64 + 94));
}

TEST(OperatorValues, Softmax) {
  Evaluation value;
  Tensor x = value.leaf({2, 2}, {0, std::log(3.0), 1000, 1000});
  EXPECT_THAT(value(softmax(x, -1)), Pointwise(DoubleNear(exact), Values{0.25, 0.75, 0.5, 0.5}));
  EXPECT_THAT(value(log_softmax(x, 1)),
              Pointwise(DoubleNear(exact), Values{std::log(0.25), std::log(0.75), std::log(0.5), std::log(0.5)}));
  Tensor y = value.leaf({2, 1}, {5, 5});
  EXPECT_THAT(value(softmax(y, 0)), ElementsAre(0.5, 0.5));
}

TEST(OperatorValues, LayerNormalisation) {
  Evaluation value;
  Tensor x = value.leaf({2, 2}, {1, 3, -2, -2});
  Tensor gain = value.leaf({2}, {1, 2}), bias = value.leaf({2}, {0, 10});
  double r = 1 / std::sqrt(1 + 1e-5);  // the variance of 1, 3 is 1
  EXPECT_THAT(value(layernorm(x, gain, bias)), Pointwise(DoubleNear(exact), Values{-r, 10 + 2 * r, 0, 10}));
}

TEST(OperatorValues, CrossEntropyIsTheMeanOfNegativeLogProbabilities) {
  Evaluation value;
  Tensor logits = value.leaf({2, 2}, {0, std::log(3.0), 2000, 0});
  EXPECT_THAT(value(cross_entropy(logits, value.indices({2}, {1, 0}))),
              Pointwise(DoubleNear(exact), Values{-std::log(0.75) / 2}));
  EXPECT_THAT(value(cross_entropy(logits, value.indices({2}, {0, 1}))),
              Pointwise(DoubleNear(exact), Values{(-std::log(0.25) + 2000) / 2}));
  Tensor flat = value.leaf({3, 2, 5}, Values(30, 0.7));
  EXPECT_THAT(value(cross_entropy(flat, value.indices({3, 2}, {0, 1, 2, 3, 4, 0}))),
              Pointwise(DoubleNear(exact), Values{std::log(5)}));
  Tensor row = value.leaf({4}, {1, 1, 1, 1});
  EXPECT_THAT(value(cross_entropy(row, value.indices({}, {2}))), Pointwise(DoubleNear(exact), Values{std::log(4)}));
}

TEST(OperatorValues, CausalMaskHidesTheFuture) {
  Evaluation value;
  Tensor weights = softmax(causal_mask(value.leaf({3, 3}, Values(9, 2))), -1);
  EXPECT_THAT(value(weights), Pointwise(DoubleNear(exact), Values{1, 0, 0, .5, .5, 0, 1. / 3, 1. / 3, 1. / 3}));
}

TEST(OperatorValues, Lookups) {
  Evaluation value;
  Tensor table = value.counting({4, 2});
  EXPECT_THAT(value(embedding(table, value.indices({3}, {2, 0, 2}))), ElementsAre(4, 5, 0, 1, 4, 5));
  EXPECT_THAT(value(pick(table, value.indices({4}, {0, 1, 1, 0}))), ElementsAre(0, 3, 5, 6));
  Tensor loss = sum(embedding(table, value.indices({3}, {2, 0, 2})));
  EXPECT_THAT(value(gradients(loss, {table})[0]), ElementsAre(1, 1, 0, 0, 2, 2, 0, 0));
}

TEST(OperatorValues, Layouts) {
  Evaluation value;
  Tensor x = value.counting({2, 3});
  EXPECT_THAT(value(transpose(x, {1, 0})), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(value(reshape(x, {3, -1})), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(reshape(x, {3, -1}).shape(), (Dims{3, 2}));
  EXPECT_THAT(value(slice(x, -1, 1, 3)), ElementsAre(1, 2, 4, 5));
  EXPECT_THAT(value(slice(x, 0, -1, 2)), ElementsAre(3, 4, 5));
  EXPECT_THAT(value(pad(slice(x, 1, 0, 1), 1, 1, 1)), ElementsAre(0, 0, 0, 0, 3, 0));
  EXPECT_THAT(value(concat({x, slice(x, 1, 0, 1)}, 1)), ElementsAre(0, 1, 2, 0, 3, 4, 5, 3));
  EXPECT_THAT(value(broadcast(slice(x, 1, 2, 3), {2, 2})), ElementsAre(2, 2, 5, 5));
  EXPECT_THAT(value(full({2}, 3)), ElementsAre(3, 3));
  EXPECT_EQ(reshape(x, {2, 3}).node(), x.node()) << "nothing to do";
}

TEST(OperatorValues, EveryReshapeKeepsTheOrderOfElements) {
  Evaluation value;
  std::vector<Dims> shapes = {{24},      {2, 12},   {4, 6},     {6, 4},       {3, 8},      {8, 3},
                              {2, 3, 4}, {4, 3, 2}, {1, 24, 1}, {3, 2, 2, 2}, {2, 1, 2, 6}};
  Values order(24);
  std::iota(order.begin(), order.end(), 0);
  for (const Dims& from : shapes)
    for (const Dims& to : shapes)
      EXPECT_EQ(value(reshape(value.counting(from), to)), order) << text(from) << " to " << text(to);
}

TEST(OperatorValues, ReshapesThatSplitOrMergeCanBeShardedAndOthersAreWhole) {
  Evaluation value;
  const Program& program = Trace::current().program;
  auto kinds = [&](const Dims& from, const Dims& to) {
    std::string out;
    for (const Factor& f : program[reshape(value.counting(from), to).node()].space.factors)
      out += f.kind == FactorKind::whole ? "w" : "p";
    return out;
  };
  EXPECT_EQ(kinds({6, 4}, {2, 3, 4}), "ppp");
  EXPECT_EQ(kinds({2, 3, 4}, {6, 4}), "ppp");
  EXPECT_EQ(kinds({3, 4}, {4, 3}), "w");
  EXPECT_EQ(kinds({6, 4}, {4, 6}), "pw") << "the outer 2 is common, 3 x 4 against 2 x 6 is not";
  EXPECT_EQ(kinds({5, 3, 4}, {5, 4, 3}), "pw");
}

TEST(OperatorValues, DropoutDrawsByElementCallAndStep) {
  Evaluation value;
  Tensor x = value.leaf({4000}, Values(4000, 1.0));
  Tensor first = dropout(x, 0.25), second = dropout(x, 0.25);
  Values kept = value(first, {.seed = 1, .step = 0});
  double share = 0;
  for (double v : kept) {
    EXPECT_TRUE(v == 0 || std::abs(v - 4. / 3) < exact) << v;
    share += (v == 0) / 4000.0;
  }
  EXPECT_NEAR(share, 0.25, 0.034);  // five standard deviations of a share of 4000 draws
  EXPECT_EQ(value(first, {.seed = 1, .step = 0}), kept);
  EXPECT_NE(value(first, {.seed = 1, .step = 1}), kept);
  EXPECT_NE(value(first, {.seed = 2, .step = 0}), kept);
  EXPECT_NE(value(second, {.seed = 1, .step = 0}), kept);
  EXPECT_EQ(value(gradients(sum(first), {x})[0], {.seed = 1, .step = 0}), kept) << "the gradient draws the same";
  EXPECT_EQ(dropout(x, 0).node(), x.node());
}

}  // namespace
}  // namespace hetsynth
