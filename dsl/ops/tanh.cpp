#include "dsl/ops/tanh.h"

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

Expr body() { return tanh(Expr::input(0)); }

std::vector<Tensor> vjp(const VjpArguments& v) {
  Expr y = Expr::input(0), dy = Expr::input(1);
  return {pointwise({.tag = "tanh_gradient", .body = dy * (1.0 - y * y)}, {v.output, v.output_gradient})};
}

}  // namespace

Tensor tanh(Operand x) { return unary("tanh", x, body(), vjp); }

OperatorInfo tanh_info() {
  return {"tanh", "Elementwise hyperbolic tangent.", unary_samples("tanh", body(), {-2, 2}, vjp)};
}

}  // namespace hetsynth
