#include "dsl/ops/cos.h"

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

Expr body() { return cos(Expr::input(0)); }

}  // namespace

Tensor cos(Operand x) { return unary("cos", x, body()); }

OperatorInfo cos_info() { return {"cos", "Cosine.", unary_samples("cos", body(), {-7, 7})}; }

}  // namespace hetsynth
