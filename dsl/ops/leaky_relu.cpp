#include "dsl/ops/leaky_relu.h"

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

Expr body(double slope) { return select(less(0.0, Expr::input(0)), Expr::input(0), slope * Expr::input(0)); }

}  // namespace

Tensor leaky_relu(Operand x, double slope) { return unary("leaky_relu", x, body(slope)); }

OperatorInfo leaky_relu_info() {
  return {"leaky_relu", "Rectifier with a slope below 0.", unary_samples("leaky_relu", body(0.125), {-2, 2})};
}

}  // namespace hetsynth
