#include "dsl/ops/maximum.h"

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

Expr body(const Expr& a, const Expr& b) { return maximum(a, b); }

}  // namespace

Tensor maximum(Operand a, Operand b) { return binary("maximum", a, b, body); }

OperatorInfo maximum_info() {
  return {"maximum", "Elementwise maximum of two tensors.", binary_samples("maximum", body, {-2, 2}, {-2, 2})};
}

}  // namespace hetsynth
