#include "dsl/ops/to_float.h"

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

PointwiseRule rule() { return {.tag = "to_float", .body = Expr::input(0), .integers = {0}}; }

}  // namespace

Tensor to_float(Operand indices) {
  Tensor in = as_tensor(indices);
  return in.dtype() == DType::f32 ? in : pointwise(rule(), {in}, indices.where);
}

OperatorInfo to_float_info() {
  return {"to_float", "Indices as numbers.", {{pointwise_operator(rule()), {{{3, 5}, DType::i32}}, {{0, 9}}}}};
}

}  // namespace hetsynth
