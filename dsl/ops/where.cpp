#include "dsl/ops/where.h"

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

/// Inputs: the condition, then those of the two values that are tensors.
PointwiseRule rule(DType condition, const std::optional<double>& if_true, const std::optional<double>& if_false,
                   DType values = DType::f32) {
  Expr yes = if_true ? Expr(*if_true) : Expr::input(1);
  Expr no = if_false ? Expr(*if_false) : Expr::input(if_true ? 1 : 2);
  PointwiseRule rule{.tag = "where", .body = select(Expr::input(0), yes, no)};
  if (condition == DType::i32) rule.integers = {0};
  if (values == DType::i32) {
    const int tensors = (if_true ? 0 : 1) + (if_false ? 0 : 1);
    for (int j = 1; j <= tensors; ++j) rule.integers.insert(j);
    rule.result = DType::i32;
  }
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
  const DType values = are_integers("where", {if_true, if_false}, 1) ? DType::i32 : DType::f32;
  return pointwise(rule(inputs[0].dtype(), numbers[0], numbers[1], values), inputs, condition.where);
}

OperatorInfo where_info() {
  std::vector<TensorType> integer = {{{2, 1, 4}, DType::i32}, {{3, 1}, DType::f32}, {{2, 3, 4}, DType::f32}};
  const std::vector<TensorType> whole = {{{3, 1}, DType::f32}, {{3, 4}, DType::i32}, {{4}, DType::i32}};
  return {"where",
          "Choice between two tensors.",
          {{pointwise_operator(rule(DType::i32, {}, {})), integer, {{0, 1}}},
           {pointwise_operator(rule(DType::f32, {}, {})), floats({{5}, {3, 5}, {}}), {}},
           {pointwise_operator(rule(DType::i32, {}, -1)), {{{4}, DType::i32}, {{3, 4}, DType::f32}}, {{0, 1}}},
           {pointwise_operator(rule(DType::i32, 0.5, {})), {{{3, 4}, DType::i32}, {{4}, DType::f32}}, {{0, 1}}},
           {pointwise_operator(rule(DType::f32, {}, {}, DType::i32)), whole, {{}, {-9, 9}, {-9, 9}}},
           {pointwise_operator(rule(DType::i32, {}, -1, DType::i32)),
            {{{3, 4}, DType::i32}, {{4}, DType::i32}},
            {{0, 1}, {0, 9}}}}};
}

}  // namespace hetsynth
