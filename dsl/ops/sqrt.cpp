#include "dsl/ops/sqrt.h"

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

Expr body() { return sqrt(Expr::input(0)); }

std::vector<Tensor> vjp(const VjpArguments& v) {
  Expr y = Expr::input(0), dy = Expr::input(1);
  return {pointwise({.tag = "sqrt_gradient", .body = 0.5 * dy / y}, {v.output, v.output_gradient})};
}

}  // namespace

Tensor sqrt(Operand x) { return unary("sqrt", x, body(), vjp); }

OperatorInfo sqrt_info() { return {"sqrt", "Elementwise square root.", unary_samples("sqrt", body(), {0.5, 3}, vjp)}; }

}  // namespace hetsynth
