#include "dsl/ops/maximum.h"

#include <utility>

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

Expr body(const Expr& a, const Expr& b) { return maximum(a, b); }

}  // namespace

Tensor maximum(Operand a, Operand b) { return binary("maximum", a, b, body, OfIntegers::whole); }

OperatorInfo maximum_info() {
  std::vector<OperatorSample> samples = binary_samples("maximum", body, {-2, 2}, {-2, 2});
  for (OperatorSample& sample : integer_binary_samples("maximum", body)) samples.push_back(std::move(sample));
  return {"maximum", "Elementwise maximum of two tensors.", std::move(samples)};
}

}  // namespace hetsynth
