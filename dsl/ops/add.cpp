#include "dsl/ops/add.h"

#include "dsl/ops/support/join_padded.h"
#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

Expr body(const Expr& a, const Expr& b) { return a + b; }

}  // namespace

Tensor add(Operand a, Operand b) { return binary("add", a, b, body); }
Tensor operator+(Operand a, Operand b) { return add(a, b); }

Tensor accumulate(Tensor a, Tensor b) {
  Tensor joined = join_padded(a, b);
  return joined.defined() ? joined : add(a, b);
}

OperatorInfo add_info() { return {"add", "Elementwise sum.", binary_samples("add", body, {-2, 2}, {-2, 2})}; }

}  // namespace hetsynth
