#include "dsl/ops/sin.h"

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

Expr body() { return sin(Expr::input(0)); }

}  // namespace

Tensor sin(Operand x) { return unary("sin", x, body()); }

OperatorInfo sin_info() { return {"sin", "Sine.", unary_samples("sin", body(), {-7, 7})}; }

}  // namespace hetsynth
