#include "dsl/ops/softplus.h"

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

/// max(x, 0) + log(1 + e^-|x|): the exponential is at most 1.
Expr body() {
  Expr x = Expr::input(0);
  return maximum(x, 0.0) + log(1.0 + exp(-maximum(x, -x)));
}

/// dx = dy sigmoid(x).
std::vector<Tensor> vjp(const VjpArguments& v) {
  return {pointwise({.tag = "softplus_gradient", .body = Expr::input(1) / (1.0 + exp(-Expr::input(0)))},
                    {v.inputs[0], v.output_gradient})};
}

}  // namespace

Tensor softplus(Operand x) { return unary("softplus", x, body(), vjp); }

OperatorInfo softplus_info() {
  return {"softplus", "Smooth rectifier.", unary_samples("softplus", body(), {-4, 4}, vjp)};
}

}  // namespace hetsynth
