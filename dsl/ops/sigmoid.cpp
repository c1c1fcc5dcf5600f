#include "dsl/ops/sigmoid.h"

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

Expr body() { return 1.0 / (1.0 + exp(-Expr::input(0))); }

/// dx = dy y (1 - y): the exponential is not needed again.
std::vector<Tensor> vjp(const VjpArguments& v) {
  Expr y = Expr::input(0), dy = Expr::input(1);
  return {pointwise({.tag = "sigmoid_gradient", .body = dy * y * (1.0 - y)}, {v.output, v.output_gradient})};
}

}  // namespace

Tensor sigmoid(Operand x) { return unary("sigmoid", x, body(), vjp); }

OperatorInfo sigmoid_info() { return {"sigmoid", "Logistic sigmoid.", unary_samples("sigmoid", body(), {-2, 2}, vjp)}; }

}  // namespace hetsynth
