#include "dsl/ops/add.h"

#include <utility>

#include "dsl/ops/support/join_padded.h"
#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

Expr body(const Expr& a, const Expr& b) { return a + b; }

}  // namespace

Tensor add(Operand a, Operand b) { return binary("add", a, b, body, OfIntegers::whole); }
Tensor operator+(Operand a, Operand b) { return add(a, b); }
Tensor& operator+=(Tensor& a, Operand b) { return a = add(Operand(a, b.where), b); }

Tensor accumulate(Tensor a, Tensor b) {
  Tensor joined = join_padded(a, b);
  return joined.defined() ? joined : add(a, b);
}

OperatorInfo add_info() {
  std::vector<OperatorSample> samples = binary_samples("add", body, {-2, 2}, {-2, 2});
  for (OperatorSample& sample : integer_binary_samples("add", body)) samples.push_back(std::move(sample));
  return {"add", "Elementwise sum.", std::move(samples)};
}

}  // namespace hetsynth
