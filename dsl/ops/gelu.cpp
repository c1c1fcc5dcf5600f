#include "dsl/ops/gelu.h"

#include <cmath>

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

const double slope = std::sqrt(2 / M_PI);
constexpr double cubic = 0.044715;

Expr body() {
  Expr x = Expr::input(0);
  return 0.5 * x * (1.0 + tanh(slope * (x + cubic * x * x * x)));
}

std::vector<Tensor> vjp(const VjpArguments& v) {
  Expr x = Expr::input(0), dy = Expr::input(1);
  Expr t = tanh(slope * (x + cubic * x * x * x));
  Expr inner = slope * (1.0 + 3 * cubic * x * x);
  return {pointwise({.tag = "gelu_gradient", .body = dy * 0.5 * (1.0 + t + x * (1.0 - t * t) * inner)},
                    {v.inputs[0], v.output_gradient})};
}

}  // namespace

Tensor gelu(Operand x) { return unary("gelu", x, body(), vjp); }

OperatorInfo gelu_info() {
  return {"gelu", "Gaussian error linear unit, the tanh approximation of GPT-2.",
          unary_samples("gelu", body(), {-2, 2}, vjp)};
}

}  // namespace hetsynth
