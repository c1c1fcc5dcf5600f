#include "dsl/ops/sum.h"

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

PointwiseRule rule(std::vector<int> dims, bool keepdim) {
  PointwiseRule rule{.tag = "sum", .body = Expr::input(0), .reduce = FactorKind::sum, .dims = std::move(dims)};
  if (keepdim) rule.drop = std::vector<int>{};
  return rule;
}

}  // namespace

Tensor sum(Operand x, DimList dims, bool keepdim) {
  return pointwise(rule(std::move(dims.dims), keepdim), {as_tensor(x)}, x.where);
}

OperatorInfo sum_info() {
  return {"sum",
          "Sum over dimensions.",
          {{pointwise_operator(rule({}, false)), floats({{3, 5}}), {}},
           {pointwise_operator(rule({-1}, false)), floats({{2, 3, 4}}), {}},
           {pointwise_operator(rule({1}, true)), floats({{2, 3, 4}}), {}},
           {pointwise_operator(rule({0, 2}, false)), floats({{4, 1, 3, 2}}), {}}}};
}

}  // namespace hetsynth
