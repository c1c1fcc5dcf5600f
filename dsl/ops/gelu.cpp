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

Expr normal_distribution(const Expr& x) { return 0.5 * (1.0 + erf(x * std::sqrt(0.5))); }

Expr erf_body() { return Expr::input(0) * normal_distribution(Expr::input(0)); }

/// With F the standard normal distribution function and f its density: dx = dy (F(x) + x f(x)).
std::vector<Tensor> erf_vjp(const VjpArguments& v) {
  Expr x = Expr::input(0), dy = Expr::input(1);
  Expr density = std::sqrt(0.5 / M_PI) * exp(-0.5 * x * x);
  return {pointwise({.tag = "gelu_erf_gradient", .body = dy * (normal_distribution(x) + x * density)},
                    {v.inputs[0], v.output_gradient})};
}

}  // namespace

Tensor gelu(Operand x) { return unary("gelu", x, body(), vjp); }

Tensor gelu_erf(Operand x) { return unary("gelu_erf", x, erf_body(), erf_vjp); }

OperatorInfo gelu_info() {
  std::vector<OperatorSample> samples = unary_samples("gelu", body(), {-2, 2}, vjp);
  for (OperatorSample& sample : unary_samples("gelu_erf", erf_body(), {-2, 2}, erf_vjp)) samples.push_back(sample);
  return {"gelu", "Gaussian error linear unit: the tanh approximation of GPT-2, and by the error function.", samples};
}

}  // namespace hetsynth
