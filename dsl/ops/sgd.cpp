#include "dsl/ops/sgd.h"

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

/// Input 1, times input 2 if the gradient is clipped.
Expr scaled_gradient(bool scaled) { return scaled ? Expr::input(1) * Expr::input(2) : Expr::input(1); }

PointwiseRule velocity_rule(double momentum, bool scaled) {
  return {.tag = "sgd_velocity", .body = momentum * Expr::input(0) + scaled_gradient(scaled)};
}

/// Inputs: p, v, the scale of v if it is scaled and the learning rate if it changes.
PointwiseRule parameter_rule(const std::optional<double>& learning_rate, bool scaled) {
  Expr rate = learning_rate ? Expr(*learning_rate) : Expr::input(scaled ? 3 : 2);
  return {.tag = "sgd_parameter", .body = Expr::input(0) - rate * scaled_gradient(scaled)};
}

/// Inputs: v, gradient and, if the gradient is clipped, its scale.
PointwiseRule nesterov_rule(double momentum, bool scaled) {
  return {.tag = "sgd_nesterov", .body = scaled_gradient(scaled) + momentum * Expr::input(0)};
}

bool is_one(const Operand& scale) { return scale.is_number && scale.number == 1; }

std::vector<Tensor> inputs_of(const Operand& a, const Operand& b, const Operand& scale) {
  std::vector<Tensor> inputs = {as_tensor(a), as_tensor(b)};
  if (!is_one(scale)) inputs.push_back(as_tensor(scale));
  return inputs;
}

}  // namespace

Tensor sgd_velocity(Operand v, Operand gradient, Operand scale, double momentum) {
  return pointwise(velocity_rule(momentum, !is_one(scale)), inputs_of(v, gradient, scale), v.where);
}

Tensor sgd_nesterov(Operand v, Operand gradient, Operand scale, double momentum) {
  return pointwise(nesterov_rule(momentum, !is_one(scale)), inputs_of(v, gradient, scale), v.where);
}

Tensor sgd_parameter(Operand p, Operand v, Operand scale, Operand learning_rate) {
  std::vector<Tensor> inputs = inputs_of(p, v, scale);
  std::optional<double> rate;
  if (learning_rate.is_number)
    rate = learning_rate.number;
  else
    inputs.push_back(as_tensor(learning_rate));
  return pointwise(parameter_rule(rate, !is_one(scale)), inputs, p.where);
}

OperatorInfo sgd_info() {
  return {"sgd",
          "Stochastic gradient descent with momentum.",
          {{pointwise_operator(velocity_rule(0.9, true)), floats({{3, 4}, {3, 4}, {}}), {}},
           {pointwise_operator(nesterov_rule(0.9, false)), floats({{3, 4}, {3, 4}}), {}},
           {pointwise_operator(parameter_rule(0.1, false)), floats({{5, 3}, {5, 3}}), {}},
           {pointwise_operator(parameter_rule({}, true)), floats({{5, 3}, {5, 3}, {}, {}}), {}}}};
}

}  // namespace hetsynth
