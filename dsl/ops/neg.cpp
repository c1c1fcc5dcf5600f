#include "dsl/ops/neg.h"

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

Expr body() { return -Expr::input(0); }

}  // namespace

Tensor neg(Operand x) { return unary("neg", x, body()); }
Tensor operator-(Operand x) { return neg(x); }

OperatorInfo neg_info() { return {"neg", "Elementwise negation.", unary_samples("neg", body(), {-2, 2})}; }

}  // namespace hetsynth
