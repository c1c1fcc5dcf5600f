#include "dsl/ops/erf.h"

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

Expr body() { return erf(Expr::input(0)); }

}  // namespace

Tensor erf(Operand x) { return unary("erf", x, body()); }

OperatorInfo erf_info() { return {"erf", "Error function.", unary_samples("erf", body(), {-2, 2})}; }

}  // namespace hetsynth
