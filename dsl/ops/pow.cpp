#include "dsl/ops/pow.h"

#include "dsl/ops/square.h"
#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

Expr body(const Expr& base, const Expr& exponent) {
  if (exponent.is_constant(1)) return base;
  if (exponent.is_constant(3)) return base * base * base;
  if (exponent.is_constant(0.5)) return sqrt(base);
  if (exponent.is_constant(-0.5)) return 1.0 / sqrt(base);
  if (exponent.is_constant(-1)) return 1.0 / base;
  return power(base, exponent);
}

}  // namespace

Tensor pow(Operand base, Operand exponent) {
  if (exponent.is_number && exponent.number == 2) return square(base);
  return binary("pow", base, exponent, body);
}

OperatorInfo pow_info() {
  std::vector<OperatorSample> samples = binary_samples("pow", body, {0.5, 3}, {-2, 2});
  for (double exponent : {3.0, 0.5, -0.5, -1.0}) {
    Expr by_number = body(Expr::input(0), exponent);
    samples.push_back({pointwise_operator({.tag = "pow", .body = by_number}), floats({{2, 5}}), {{0.5, 3}}});
  }
  return {"pow", "Powers.", samples};
}

}  // namespace hetsynth
