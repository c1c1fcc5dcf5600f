#include "dsl/ops/mul.h"

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

Expr body(const Expr& a, const Expr& b) { return a * b; }

}  // namespace

Tensor mul(Operand a, Operand b) { return binary("mul", a, b, body); }
Tensor operator*(Operand a, Operand b) { return mul(a, b); }

OperatorInfo mul_info() { return {"mul", "Elementwise product.", binary_samples("mul", body, {-2, 2}, {-2, 2})}; }

}  // namespace hetsynth
