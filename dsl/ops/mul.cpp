#include "dsl/ops/mul.h"

#include <utility>

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

Expr body(const Expr& a, const Expr& b) { return a * b; }

}  // namespace

Tensor mul(Operand a, Operand b) { return binary("mul", a, b, body, OfIntegers::whole); }
Tensor operator*(Operand a, Operand b) { return mul(a, b); }
Tensor& operator*=(Tensor& a, Operand b) { return a = mul(Operand(a, b.where), b); }

OperatorInfo mul_info() {
  std::vector<OperatorSample> samples = binary_samples("mul", body, {-2, 2}, {-2, 2});
  for (OperatorSample& sample : integer_binary_samples("mul", body)) samples.push_back(std::move(sample));
  return {"mul", "Elementwise product.", std::move(samples)};
}

}  // namespace hetsynth
