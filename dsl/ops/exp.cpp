#include "dsl/ops/exp.h"

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

Expr body() { return exp(Expr::input(0)); }

std::vector<Tensor> vjp(const VjpArguments& v) {
  return {pointwise({.tag = "exp_gradient", .body = Expr::input(0) * Expr::input(1)}, {v.output, v.output_gradient})};
}

}  // namespace

Tensor exp(Operand x) { return unary("exp", x, body(), vjp); }

OperatorInfo exp_info() { return {"exp", "Elementwise exponential.", unary_samples("exp", body(), {-2, 2}, vjp)}; }

}  // namespace hetsynth
