// The fast way through sums of products gives the bits of the slow one.
#include "dsl/ir/product_sum.h"

#include <gtest/gtest.h>

#include "dsl/base/error.h"
#include "dsl/ir/operator.h"

namespace hetsynth {
namespace {

Array counted(const TensorType& type) {
  Array out(type.shape);
  for (size_t i = 0; i < out.values.size(); ++i)
    out.values[i] = type.dtype == DType::i32 ? double(i % 3) : double((i * 37 + 11) % 101 + 1) / 103;
  return out;
}

/// The same body in a form that the fast way does not know.
Expr in_disguise(const Expr& body) { return Expr(ExprKind::mul, {body, Expr(1.0)}); }

TEST(ProductSum, EveryOperatorOnEveryPartIsTheSameToTheLastBit) {
  int met = 0;
  for (const OperatorInfo& info : operator_list())
    for (const OperatorSample& sample : info.samples) {
      const TensorType out = sample.op->infer(sample.inputs);
      const Space space = sample.op->space(sample.inputs, out);
      const Expr body = sample.op->body(sample.inputs, out);
      std::vector<LocalArray> inputs;
      for (const TensorType& type : sample.inputs)
        inputs.push_back({counted(type), std::vector<int64_t>(type.shape.size(), 0)});
      std::vector<int> reduced;
      for (int f = 0; f < int(space.factors.size()); ++f)
        if (space.factors[size_t(f)].reduced()) reduced.push_back(f);
      if (reduced.empty()) continue;
      met += ProductSum(space, body, inputs, full_ranges(space), reduced).applies();
      for (size_t part = 0; part <= reduced.size(); ++part) {
        std::vector<Range> ranges = full_ranges(space);
        if (part < reduced.size()) ranges[size_t(reduced[part])].hi = (ranges[size_t(reduced[part])].hi + 1) / 2;
        const LocalArray fast = evaluate(space, body, inputs, ranges, out.shape, {});
        const LocalArray slow = evaluate(space, in_disguise(body), inputs, ranges, out.shape, {});
        EXPECT_EQ(fast.array.values, slow.array.values) << info.name << " " << sample.op->attributes();
      }
    }
  EXPECT_GT(met, 20);
}

TEST(ProductSum, WhatIsNotHeldIsStillToldOf) {
  Space space;
  const int i = space.add_factor("i", 2, FactorKind::parallel), k = space.add_factor("k", 4, FactorKind::sum);
  space.inputs = {{{index_by(i), index_by(k)}, false}};
  space.output = {{index_by(i)}, false};
  const std::vector<LocalArray> part{{counted({{2, 2}, DType::f32}), {0, 2}}};
  EXPECT_THROW(evaluate(space, Expr::input(0), part, full_ranges(space), {2}, {}), InternalError);
  const LocalArray sum = evaluate(space, Expr::input(0), part, {{0, 2}, {2, 4}}, {2}, {});
  EXPECT_EQ(sum.array.values[1], part[0].array.values[2] + part[0].array.values[3]);
  EXPECT_EQ(evaluate(space, Expr::input(0), part, {{0, 2}, {3, 3}}, {2}, {}).array.values[0], 0);
}

}  // namespace
}  // namespace hetsynth
