#include "dsl/ops/log.h"

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

Expr body() { return log(Expr::input(0)); }

}  // namespace

Tensor log(Operand x) { return unary("log", x, body()); }

OperatorInfo log_info() { return {"log", "Elementwise natural logarithm.", unary_samples("log", body(), {0.5, 3})}; }

}  // namespace hetsynth
