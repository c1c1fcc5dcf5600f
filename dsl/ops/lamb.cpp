#include "dsl/ops/lamb.h"

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

PointwiseRule direction_rule(double epsilon, double weight_decay) {
  Expr direction = (Expr::input(1) / Expr::input(3)) / (sqrt(Expr::input(2) / Expr::input(4)) + epsilon);
  if (weight_decay != 0) return {.tag = "lamb_direction", .body = direction + weight_decay * Expr::input(0)};
  return {.tag = "lamb_direction", .body = direction};
}

PointwiseRule squares_rule(int rank) {
  PointwiseRule rule{.tag = "sum_of_squares", .body = Expr::input(0) * Expr::input(0)};
  if (rank > 0) rule.reduce = FactorKind::sum;
  return rule;
}

/// Inputs: squared norms of the parameter and of the direction.
PointwiseRule ratio_rule() {
  Expr p = Expr::input(0), direction = Expr::input(1);
  return {.tag = "lamb_trust_ratio", .body = select(less(0.0, minimum(p, direction)), sqrt(p) / sqrt(direction), 1.0)};
}

PointwiseRule parameter_rule() {
  return {.tag = "lamb_parameter", .body = Expr::input(0) - Expr::input(2) * Expr::input(3) * Expr::input(1)};
}

}  // namespace

Tensor lamb_direction(Operand p, Operand m, Operand v, Operand first_correction, Operand second_correction,
                      double epsilon, double weight_decay) {
  Tensor parameter = as_tensor(p);
  std::vector<Tensor> inputs = {parameter, as_tensor(m), as_tensor(v), as_tensor(first_correction),
                                as_tensor(second_correction)};
  return pointwise(direction_rule(epsilon, weight_decay), inputs, p.where);
}

Tensor lamb_trust_ratio(Operand p, Operand direction) {
  CallScope scope(p.where);
  auto squares = [](Tensor t) { return pointwise(squares_rule(t.rank()), {t}); };
  return pointwise(ratio_rule(), {squares(as_tensor(p)), squares(as_tensor(direction))}, p.where);
}

Tensor lamb_parameter(Operand p, Operand direction, Operand rate, Operand ratio) {
  return pointwise(parameter_rule(), {as_tensor(p), as_tensor(direction), as_tensor(rate), as_tensor(ratio)}, p.where);
}

OperatorInfo lamb_info() {
  OperatorSample::Domain any{}, positive{0.1, 2};
  return {"lamb",
          "LAMB: direction, trust ratio and parameter update.",
          {{pointwise_operator(direction_rule(1e-3, 0.1)),
            floats({{5, 3}, {5, 3}, {5, 3}, {}, {}}),
            {any, any, positive, positive, positive}},
           {pointwise_operator(squares_rule(2)), floats({{3, 4}}), {}},
           {pointwise_operator(ratio_rule()), floats({{}, {}}), {positive, positive}},
           {pointwise_operator(parameter_rule()), floats({{3, 4}, {3, 4}, {}, {}}), {}}}};
}

}  // namespace hetsynth
