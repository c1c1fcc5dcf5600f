#include "dsl/ops/square.h"

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

Expr body() { return Expr::input(0) * Expr::input(0); }

std::vector<Tensor> vjp(const VjpArguments& v) {
  return {pointwise({.tag = "square_gradient", .body = 2.0 * Expr::input(0) * Expr::input(1)},
                    {v.inputs[0], v.output_gradient})};
}

}  // namespace

Tensor square(Operand x) { return unary("square", x, body(), vjp); }

OperatorInfo square_info() { return {"square", "Square.", unary_samples("square", body(), {-2, 2}, vjp)}; }

}  // namespace hetsynth
