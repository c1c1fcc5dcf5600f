#include "dsl/ops/where.h"

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

/// Inputs: the condition, then those of the two values that are tensors.
PointwiseRule rule(DType condition, const std::optional<double>& if_true, const std::optional<double>& if_false) {
  Expr yes = if_true ? Expr(*if_true) : Expr::input(1);
  Expr no = if_false ? Expr(*if_false) : Expr::input(if_true ? 1 : 2);
  PointwiseRule rule{.tag = "where", .body = select(Expr::input(0), yes, no)};
  if (condition == DType::i32) rule.integers = {0};
  return rule;
}

}  // namespace

Tensor where(Operand condition, Operand if_true, Operand if_false) {
  CallScope scope(condition.where);
  std::vector<Tensor> inputs = {as_tensor(condition)};
  std::optional<double> numbers[2];
  for (int side : {0, 1}) {
    const Operand& value = side == 0 ? if_true : if_false;
    if (value.is_number)
      numbers[side] = value.number;
    else
      inputs.push_back(as_tensor(value));
  }
  return pointwise(rule(inputs[0].dtype(), numbers[0], numbers[1]), inputs, condition.where);
}

OperatorInfo where_info() {
  std::vector<TensorType> integer = {{{2, 1, 4}, DType::i32}, {{3, 1}, DType::f32}, {{2, 3, 4}, DType::f32}};
  return {"where",
          "Choice between two tensors.",
          {{pointwise_operator(rule(DType::i32, {}, {})), integer, {{0, 1}}},
           {pointwise_operator(rule(DType::f32, {}, {})), floats({{5}, {3, 5}, {}}), {}},
           {pointwise_operator(rule(DType::i32, {}, -1)), {{{4}, DType::i32}, {{3, 4}, DType::f32}}, {{0, 1}}},
           {pointwise_operator(rule(DType::i32, 0.5, {})), {{{3, 4}, DType::i32}, {{4}, DType::f32}}, {{0, 1}}}}};
}

}  // namespace hetsynth
