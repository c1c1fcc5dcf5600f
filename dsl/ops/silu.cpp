#include "dsl/ops/silu.h"

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

Expr body() { return Expr::input(0) / (1.0 + exp(-Expr::input(0))); }

/// With s = sigmoid(x): dx = dy s (1 + x (1 - s)).
std::vector<Tensor> vjp(const VjpArguments& v) {
  Expr x = Expr::input(0), dy = Expr::input(1), s = 1.0 / (1.0 + exp(-x));
  return {
      pointwise({.tag = "silu_gradient", .body = dy * s * (1.0 + x * (1.0 - s))}, {v.inputs[0], v.output_gradient})};
}

}  // namespace

Tensor silu(Operand x) { return unary("silu", x, body(), vjp); }

OperatorInfo silu_info() { return {"silu", "Sigmoid linear unit.", unary_samples("silu", body(), {-4, 4}, vjp)}; }

}  // namespace hetsynth
