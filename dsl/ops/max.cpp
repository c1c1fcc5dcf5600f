#include "dsl/ops/max.h"

#include "dsl/ops/reshape.h"
#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

/// Every element equal to the maximum gets the gradient divided by how many there are.
std::vector<Tensor> vjp(const VjpArguments& v, const std::vector<int>& dims) {
  Tensor x = v.inputs[0];
  Shape kept = x.shape();
  for (size_t d = 0; d < kept.size(); ++d) {
    bool reduced = dims.empty();
    for (int dim : dims) reduced = reduced || (dim < 0 ? dim + int(kept.size()) : dim) == int(d);
    if (reduced) kept[d] = 1;
  }
  Tensor y = reshape(v.output, kept), dy = reshape(v.output_gradient, kept);
  Expr is_largest = equal(Expr::input(0), Expr::input(1));
  Tensor count = pointwise(
      {.tag = "max_count", .body = is_largest, .reduce = FactorKind::sum, .dims = dims, .drop = std::vector<int>{}},
      {x, y});
  return {pointwise({.tag = "max_gradient", .body = select(is_largest, Expr::input(2) / Expr::input(3), Expr(0.0))},
                    {x, y, dy, count})};
}

PointwiseRule rule(const std::vector<int>& dims, bool keepdim) {
  PointwiseRule rule{.tag = "max", .body = Expr::input(0), .reduce = FactorKind::max, .dims = dims};
  rule.vjp = [dims](const VjpArguments& v) { return vjp(v, dims); };
  if (keepdim) rule.drop = std::vector<int>{};
  return rule;
}

}  // namespace

Tensor max(Operand x, DimList dims, bool keepdim) {
  return pointwise(rule(dims.dims, keepdim), {as_tensor(x)}, x.where);
}

OperatorInfo max_info() {
  return {"max",
          "Maximum over dimensions.",
          {{pointwise_operator(rule({}, false)), floats({{3, 5}}), {}},
           {pointwise_operator(rule({-1}, false)), floats({{2, 3, 4}}), {}},
           {pointwise_operator(rule({1}, true)), floats({{2, 3, 4}}), {}}}};
}

}  // namespace hetsynth
