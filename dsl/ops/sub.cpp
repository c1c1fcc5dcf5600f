#include "dsl/ops/sub.h"

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

Expr body(const Expr& a, const Expr& b) { return a - b; }

}  // namespace

Tensor sub(Operand a, Operand b) { return binary("sub", a, b, body); }
Tensor operator-(Operand a, Operand b) { return sub(a, b); }

OperatorInfo sub_info() { return {"sub", "Elementwise difference.", binary_samples("sub", body, {-2, 2}, {-2, 2})}; }

}  // namespace hetsynth
