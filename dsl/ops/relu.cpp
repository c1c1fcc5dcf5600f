#include "dsl/ops/relu.h"

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

Expr body() { return maximum(Expr::input(0), Expr(0.0)); }

std::vector<Tensor> vjp(const VjpArguments& v) {
  Expr y = Expr::input(0), dy = Expr::input(1);
  return {pointwise({.tag = "relu_gradient", .body = select(less(Expr(0.0), y), dy, Expr(0.0))},
                    {v.output, v.output_gradient})};
}

}  // namespace

Tensor relu(Operand x) { return unary("relu", x, body(), vjp); }

OperatorInfo relu_info() { return {"relu", "Rectified linear unit.", unary_samples("relu", body(), {-2, 2}, vjp)}; }

}  // namespace hetsynth
