#include "dsl/ops/minimum.h"

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

Expr body(const Expr& a, const Expr& b) { return minimum(a, b); }

}  // namespace

Tensor minimum(Operand a, Operand b) { return binary("minimum", a, b, body); }

OperatorInfo minimum_info() {
  return {"minimum", "Elementwise minimum of two tensors.", binary_samples("minimum", body, {-2, 2}, {-2, 2})};
}

}  // namespace hetsynth
