// Values of DSL expressions in the reference interpreter, and the messages of their errors.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "dsl/include/hetsynth/hetsynth.h"
#include "dsl/ir/interpreter.h"
#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "tests/support/error_of.h"

namespace hetsynth {

using Values = std::vector<double>;

constexpr double exact = 1e-12;  // double against double: only the order of a few roundings differs

/// Leaves with values, for one expression of the DSL.
class Evaluation {
 public:
  Tensor leaf(const Shape& shape, Values values, DType dtype = DType::f32) {
    Tensor t = trace_.add_leaf(NodeKind::parameter, "", {shape, dtype}, std::source_location::current());
    Array array(shape);
    array.values = std::move(values);
    leaves_[t.node()] = std::move(array);
    return t;
  }
  Tensor indices(const Shape& shape, Values values) { return leaf(shape, std::move(values), DType::i32); }
  /// 0, 1, 2, ...
  Tensor counting(const Shape& shape) {
    Values values(size_t(element_count(shape)));
    std::iota(values.begin(), values.end(), 0);
    return leaf(shape, std::move(values));
  }
  Values operator()(Tensor t, const EvaluationContext& context = {}) const {
    return interpret(trace_.program, leaves_, context)[t.node()].values;
  }

 private:
  Trace trace_{"model.cpp"};
  Bindings leaves_;
};

/// A scalar built from one leaf.
using ScalarOf = std::function<Tensor(Evaluation&, Tensor)>;

/// Central differences of the scalar by every element of the leaf.
inline Values slopes(const Shape& shape, const Values& at, const ScalarOf& loss) {
  constexpr double h = 1e-5;
  Values out;
  for (size_t i = 0; i < at.size(); ++i) {
    double side[2];
    for (int s : {0, 1}) {
      Evaluation value;
      Values moved = at;
      moved[i] += s ? h : -h;
      side[s] = value(loss(value, value.leaf(shape, moved)))[0];
    }
    out.push_back((side[1] - side[0]) / (2 * h));
  }
  return out;
}

inline void expect_gradient(const Shape& shape, const Values& at, const ScalarOf& loss) {
  const Values expected = slopes(shape, at, loss);
  Evaluation value;
  Tensor x = value.leaf(shape, at);
  // A central difference is off by h^2/6 times the third derivative and by 1e-16 / h of the value: below 1e-8 here.
  EXPECT_THAT(value(gradients(loss(value, x), {x})[0]), ::testing::Pointwise(::testing::DoubleNear(1e-7), expected));
}

}  // namespace hetsynth
