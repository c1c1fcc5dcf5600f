#include "dsl/ops/rsqrt.h"

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

Expr body() { return 1.0 / sqrt(Expr::input(0)); }

/// dx = -dy y^3 / 2.
std::vector<Tensor> vjp(const VjpArguments& v) {
  Expr y = Expr::input(0), dy = Expr::input(1);
  return {pointwise({.tag = "rsqrt_gradient", .body = -0.5 * dy * y * y * y}, {v.output, v.output_gradient})};
}

}  // namespace

Tensor rsqrt(Operand x) { return unary("rsqrt", x, body(), vjp); }

OperatorInfo rsqrt_info() {
  return {"rsqrt", "Reciprocal of the square root.", unary_samples("rsqrt", body(), {0.5, 3}, vjp)};
}

}  // namespace hetsynth
