#include "dsl/ops/minimum.h"

#include <utility>

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

Expr body(const Expr& a, const Expr& b) { return minimum(a, b); }

}  // namespace

Tensor minimum(Operand a, Operand b) { return binary("minimum", a, b, body, OfIntegers::whole); }

OperatorInfo minimum_info() {
  std::vector<OperatorSample> samples = binary_samples("minimum", body, {-2, 2}, {-2, 2});
  for (OperatorSample& sample : integer_binary_samples("minimum", body)) samples.push_back(std::move(sample));
  return {"minimum", "Elementwise minimum of two tensors.", std::move(samples)};
}

}  // namespace hetsynth
