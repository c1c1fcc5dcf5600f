#include "dsl/ops/div.h"

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

Expr body(const Expr& a, const Expr& b) { return a / b; }

}  // namespace

Tensor div(Operand a, Operand b) { return binary("div", a, b, body); }
Tensor operator/(Operand a, Operand b) { return div(a, b); }
Tensor& operator/=(Tensor& a, Operand b) { return a = div(Operand(a, b.where), b); }

OperatorInfo div_info() { return {"div", "Elementwise quotient.", binary_samples("div", body, {-2, 2}, {0.5, 2})}; }

}  // namespace hetsynth
