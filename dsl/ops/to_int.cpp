#include "dsl/ops/to_int.h"

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

PointwiseRule rule() { return {.tag = "to_int", .body = floor(Expr::input(0)), .result = DType::i32}; }

}  // namespace

Tensor to_int(Operand x) {
  Tensor in = as_tensor(x);
  return in.dtype() == DType::i32 ? in : pointwise(rule(), {in}, x.where);
}

OperatorInfo to_int_info() {
  return {"to_int", "Numbers as indices.", {{pointwise_operator(rule()), floats({{3, 5}}), {{-4, 4}}}}};
}

}  // namespace hetsynth
