#include "dsl/ops/neg.h"

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

Expr body() { return -Expr::input(0); }

}  // namespace

Tensor neg(Operand x) {
  Tensor in = as_tensor(x);
  if (in.dtype() != DType::i32) return unary("neg", x, body());
  return pointwise({.tag = "neg", .body = body(), .integers = {0}, .result = DType::i32}, {in}, x.where);
}
Tensor operator-(Operand x) { return neg(x); }

OperatorInfo neg_info() {
  std::vector<OperatorSample> samples = unary_samples("neg", body(), {-2, 2});
  samples.push_back({pointwise_operator({.tag = "neg", .body = body(), .integers = {0}, .result = DType::i32}),
                     {{{3, 4}, DType::i32}},
                     {{-9, 9}}});
  return {"neg", "Elementwise negation.", samples};
}

}  // namespace hetsynth
