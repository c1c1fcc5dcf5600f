#include "dsl/ops/sub.h"

#include <utility>

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

Expr body(const Expr& a, const Expr& b) { return a - b; }

}  // namespace

Tensor sub(Operand a, Operand b) { return binary("sub", a, b, body, OfIntegers::whole); }
Tensor operator-(Operand a, Operand b) { return sub(a, b); }
Tensor& operator-=(Tensor& a, Operand b) { return a = sub(Operand(a, b.where), b); }

OperatorInfo sub_info() {
  std::vector<OperatorSample> samples = binary_samples("sub", body, {-2, 2}, {-2, 2});
  for (OperatorSample& sample : integer_binary_samples("sub", body)) samples.push_back(std::move(sample));
  return {"sub", "Elementwise difference.", std::move(samples)};
}

}  // namespace hetsynth
