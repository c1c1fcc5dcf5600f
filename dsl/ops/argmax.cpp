#include "dsl/ops/argmax.h"

#include "dsl/ops/max.h"
#include "dsl/ops/neg.h"
#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

std::vector<Tensor> no_gradient(const VjpArguments& v) { return std::vector<Tensor>(v.inputs.size()); }

/// The largest of the negated indices at which in0 equals in1, the maximum along the dimension. Elsewhere the last
/// index stands, so that a line of NaN gives an index too.
PointwiseRule first_rule(int dim, int64_t extent, bool keepdim) {
  Expr is_largest = equal(Expr::input(0), Expr::input(1));
  PointwiseRule rule{.tag = "argmax",
                     .body = select(is_largest, -Expr::factor(dim), double(1 - extent)),
                     .reduce = FactorKind::max,
                     .dims = {dim},
                     .vjp = no_gradient};
  if (keepdim) rule.drop = std::vector<int>{};
  return rule;
}

/// Rounded, so that what is a whole number stays one however it was computed.
PointwiseRule index_rule() {
  return {.tag = "argmax_index", .body = floor(0.5 - Expr::input(0)), .result = DType::i32, .vjp = no_gradient};
}

}  // namespace

Tensor argmax(Operand x, int dim, bool keepdim) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x);
  int at = checked_call({in}, [&] { return normalize_dim("argmax", dim, in.shape()); });
  Tensor first = pointwise(first_rule(at, in.size(at), keepdim), {in, max(in, at, true)}, x.where);
  return pointwise(index_rule(), {first}, x.where);
}

Tensor argmin(Operand x, int dim, bool keepdim) {
  CallScope scope(x.where);
  return argmax(Operand(-as_tensor(x), x.where), dim, keepdim);
}

OperatorInfo argmax_info() {
  return {"argmax",
          "Where the largest element stands.",
          {{pointwise_operator(first_rule(1, 5, false)), floats({{3, 5}, {3, 1}}), {}},
           {pointwise_operator(first_rule(0, 4, true)), floats({{4, 3}, {1, 3}}), {}},
           {pointwise_operator(index_rule()), floats({{7}}), {{-6, 0}}}}};
}

}  // namespace hetsynth
