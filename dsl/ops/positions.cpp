#include "dsl/ops/positions.h"

#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

PointwiseRule rule(const Shape& shape, int dim) {
  return {.tag = "positions", .body = Expr::factor(dim), .shape = shape, .result = DType::i32};
}

}  // namespace

Tensor positions(const std::vector<int64_t>& shape, int dim, std::source_location where) {
  CallScope scope(where);
  int at = checked_call({}, [&] { return normalize_dim("positions", dim, shape); });
  return pointwise(rule(shape, at), {}, where);
}

OperatorInfo positions_info() {
  return {"positions",
          "The index of every element along a dimension.",
          {{pointwise_operator(rule({3, 4}, 1)), {}, {}}, {pointwise_operator(rule({5, 1, 2}, 0)), {}, {}}}};
}

}  // namespace hetsynth
