#include "dsl/ops/abs.h"

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

Expr body() { return maximum(Expr::input(0), -Expr::input(0)); }

std::vector<Tensor> vjp(const VjpArguments& v) {
  Expr x = Expr::input(0), dy = Expr::input(1);
  return {pointwise({.tag = "abs_gradient", .body = select(less(0.0, x), dy, select(less(x, 0.0), -dy, 0.0))},
                    {v.inputs[0], v.output_gradient})};
}

}  // namespace

Tensor abs(Operand x) { return unary("abs", x, body(), vjp); }

OperatorInfo abs_info() { return {"abs", "Absolute value.", unary_samples("abs", body(), {-2, 2}, vjp)}; }

}  // namespace hetsynth
