#include "dsl/ops/adamw.h"

#include "dsl/ops/support/alternation.h"
#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

Expr step_number() { return optimizer_step() + 1.0; }

PointwiseRule correction_rule(double beta) {
  return {.tag = "adamw_correction", .body = 1.0 - power(beta, step_number())};
}

/// Inputs: moment, gradient and, if the gradient is clipped, its scale.
PointwiseRule moment_rule(bool second, double beta, bool scaled) {
  Expr m = Expr::input(0), g = scaled ? Expr::input(1) * Expr::input(2) : Expr::input(1);
  return {.tag = second ? "adamw_second_moment" : "adamw_first_moment",
          .body = beta * m + (1 - beta) * (second ? g * g : g)};
}

/// Inputs: p, m, v, learning rate, corrections of m and v.
PointwiseRule parameter_rule(double epsilon, double weight_decay) {
  Expr p = Expr::input(0), m = Expr::input(1), v = Expr::input(2), rate = Expr::input(3);
  Expr direction = (m / Expr::input(4)) / (sqrt(v / Expr::input(5)) + epsilon);
  if (weight_decay != 0) direction = direction + weight_decay * p;
  return {.tag = "adamw_parameter", .body = p - rate * direction};
}

/// Inputs: parameter, gradient and, if the gradient is clipped, its scale.
PointwiseRule decay_rule(double weight_decay, bool scaled) {
  Expr g = scaled ? Expr::input(1) * Expr::input(2) : Expr::input(1);
  return {.tag = "decayed_gradient", .body = g + weight_decay * Expr::input(0)};
}

Tensor moment(bool second, const Operand& m, const Operand& gradient, const Operand& scale, double beta) {
  bool scaled = !(scale.is_number && scale.number == 1);
  std::vector<Tensor> inputs = {as_tensor(m), as_tensor(gradient)};
  if (scaled) inputs.push_back(as_tensor(scale));
  return pointwise(moment_rule(second, beta, scaled), inputs, m.where);
}

}  // namespace

AdamWRates adamw_rates(Tensor learning_rate, double beta1, double beta2, std::source_location where) {
  auto scalar = [&](const char* name, PointwiseRule rule) {
    Tensor out = pointwise(std::move(rule), {}, where);
    Trace::current().set_name(out, name, {});
    return out;
  };
  return {learning_rate, scalar("adamw.first_correction", correction_rule(beta1)),
          scalar("adamw.second_correction", correction_rule(beta2))};
}

Tensor decayed_gradient(Operand p, Operand gradient, Operand scale, double weight_decay) {
  bool scaled = !(scale.is_number && scale.number == 1);
  std::vector<Tensor> inputs = {as_tensor(p), as_tensor(gradient)};
  if (scaled) inputs.push_back(as_tensor(scale));
  return pointwise(decay_rule(weight_decay, scaled), inputs, p.where);
}

Tensor adamw_first_moment(Operand m, Operand gradient, Operand scale, double beta) {
  return moment(false, m, gradient, scale, beta);
}

Tensor adamw_second_moment(Operand v, Operand gradient, Operand scale, double beta) {
  return moment(true, v, gradient, scale, beta);
}

Tensor adamw_parameter(Operand p, Operand m, Operand v, const AdamWRates& rates, double epsilon, double weight_decay) {
  return pointwise(
      parameter_rule(epsilon, weight_decay),
      {as_tensor(p), as_tensor(m), as_tensor(v), rates.learning_rate, rates.first_correction, rates.second_correction},
      p.where);
}

OperatorInfo adamw_info() {
  OperatorSample::Domain any{}, positive{0.1, 2};
  return {"adamw",
          "AdamW: moments and parameter update.",
          {{pointwise_operator(decay_rule(0.1, true)), floats({{3, 4}, {3, 4}, {}}), {}},
           {pointwise_operator(correction_rule(0.9)), {}, {}},
           {pointwise_operator(moment_rule(false, 0.9, true)), floats({{3, 4}, {3, 4}, {}}), {}},
           {pointwise_operator(moment_rule(true, 0.9, false)), floats({{3, 4}, {3, 4}}), {}},
           {pointwise_operator(parameter_rule(1e-3, 0.1)),
            floats({{5, 3}, {5, 3}, {5, 3}, {}, {}, {}}),
            {any, any, positive, positive, positive, positive}}}};
}

}  // namespace hetsynth
