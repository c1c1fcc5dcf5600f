// Which dimensions of products are columns of activations that meet weights.
#include "dsl/ir/weight_columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"

namespace hetsynth {
namespace {

Program traced(const std::function<void()>& model) {
  Trace trace("model.cpp", {});
  run_builder(trace, model);
  return differentiate(trace);
}

TEST(WeightColumns, OfALayerAreSummedAndThenPartOfBothGradients) {
  const Program program = traced([] {
    auto [x, labels] = synthetic_batch(6, 10, 3);
    Tensor w1 = parameter("w1", {10, 8}, normal(0.1));
    Tensor h = relu(matmul(x, w1));
    Tensor w2 = parameter("w2", {8, 3}, normal(0.1));
    minimize(cross_entropy(matmul(h, w2), labels), SGD{});
  });
  const WeightColumns columns = weight_columns(program);
  ASSERT_EQ(columns.uses.size(), 5u) << text(program);  // data have no gradient
  std::multiset<int64_t> extents;
  for (const auto& [node, use] : columns.uses) extents.insert(columns.extents[size_t(use.set)]);
  EXPECT_EQ(extents, (std::multiset<int64_t>{10, 10, 8, 8, 8}));
  for (const auto& [node, use] : columns.uses) {
    const Factor& factor = program[node].space.factors[size_t(use.factor)];
    EXPECT_EQ(factor.reduced(), use.sums) << program[node].name;
    EXPECT_EQ(factor.size, columns.extents[size_t(use.set)]);
    EXPECT_EQ(use.sums, program[node].phase == Phase::forward);
  }
}

TEST(WeightColumns, OfOneActivationAreOneSet) {
  const Program program = traced([] {
    auto [x, labels] = synthetic_batch(6, 10, 3);
    Tensor a = matmul(x, parameter("a", {10, 4}, normal(0.1)));
    Tensor b = matmul(x, parameter("b", {10, 4}, normal(0.1)));
    minimize(cross_entropy(matmul(a * b, parameter("c", {4, 3}, normal(0.1))), labels), SGD{});
  });
  const WeightColumns columns = weight_columns(program);
  EXPECT_THAT(columns.extents, ::testing::UnorderedElementsAre(10, 4));
}

TEST(WeightColumns, ProductsOfActivationsHaveNone) {
  const Program program = traced([] {
    auto [x, labels] = synthetic_batch(6, 10, 3);
    Tensor y = x * parameter("gain", {10}, ones());
    Tensor scores = matmul(y, transpose(y, {1, 0}));
    minimize(cross_entropy(slice(scores, 1, 0, 3), labels), SGD{});
  });
  EXPECT_TRUE(weight_columns(program).uses.empty());
}

}  // namespace
}  // namespace hetsynth
