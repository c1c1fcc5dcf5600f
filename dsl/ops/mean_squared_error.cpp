#include "dsl/ops/mean_squared_error.h"

#include "dsl/ops/mul.h"
#include "dsl/ops/support/elementwise_loss.h"
#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

Expr body(const Expr& prediction, const Expr& target) { return (prediction - target) * (prediction - target); }

/// Both sides: 2 (prediction - target) dy, with opposite signs.
std::vector<Tensor> vjp(const VjpArguments& v) {
  auto side = [&](double factor) {
    return pointwise(
        {.tag = "squared_error_gradient", .body = factor * (Expr::input(0) - Expr::input(1)) * Expr::input(2)},
        {v.inputs[0], v.inputs[1], v.output_gradient});
  };
  return {side(2), side(-2)};
}

PointwiseRule rule(int rank) { return summed_loss("squared_error", body(Expr::input(0), Expr::input(1)), rank, vjp); }

}  // namespace

Tensor mean_squared_error(Operand prediction, Operand target) {
  return mean_loss("mean_squared_error", prediction, target, rule);
}

OperatorInfo mean_squared_error_info() {
  return {"mean_squared_error",
          "Mean of squared differences.",
          {{pointwise_operator(rule(2)), floats({{3, 5}, {3, 5}}), {}},
           {pointwise_operator(rule(0)), floats({{}, {}}), {}}}};
}

}  // namespace hetsynth
