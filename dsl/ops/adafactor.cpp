#include "dsl/ops/adafactor.h"

#include <cmath>

#include "dsl/ops/mean.h"
#include "dsl/ops/reshape.h"
#include "dsl/ops/support/alternation.h"
#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

Expr step_number() { return optimizer_step() + 1.0; }

PointwiseRule decay_rule(double exponent) {
  return {.tag = "adafactor_decay", .body = 1.0 - power(step_number(), -exponent)};
}

PointwiseRule relative_step_rule() {
  return {.tag = "adafactor_relative_step", .body = minimum(0.01, 1.0 / sqrt(step_number()))};
}

/// Mean of the squares of the scaled gradient along a dimension. Inputs: gradient and scale.
PointwiseRule squares_rule(int dim, int64_t extent, double epsilon) {
  Expr g = Expr::input(0) * Expr::input(1);
  return {.tag = "adafactor_squares",
          .body = (1.0 / double(extent)) * (g * g) + epsilon / double(extent),
          .reduce = FactorKind::sum,
          .dims = {dim}};
}

/// Inputs: v, squares, decay.
PointwiseRule moment_rule() {
  Expr decay = Expr::input(2);
  return {.tag = "adafactor_moment", .body = decay * Expr::input(0) + (1.0 - decay) * Expr::input(1)};
}

/// Inputs: v, gradient, scale, decay.
PointwiseRule full_moment_rule(double epsilon) {
  Expr g = Expr::input(1) * Expr::input(2), decay = Expr::input(3);
  return {.tag = "adafactor_moment", .body = decay * Expr::input(0) + (1.0 - decay) * (g * g + epsilon)};
}

/// Inputs: gradient, scale, v.
PointwiseRule full_direction_rule() {
  return {.tag = "adafactor_direction", .body = Expr::input(0) * Expr::input(1) / sqrt(Expr::input(2))};
}

/// Inputs: gradient, scale, rows with an extent of 1 at the end, columns with one before their last, mean of rows.
PointwiseRule direction_rule() {
  return {.tag = "adafactor_direction",
          .body = Expr::input(0) * Expr::input(1) / (sqrt(Expr::input(2) / Expr::input(4)) * sqrt(Expr::input(3)))};
}

PointwiseRule mean_square_rule(int rank, int64_t count) {
  PointwiseRule rule{.tag = "mean_square", .body = (1.0 / double(count)) * (Expr::input(0) * Expr::input(0))};
  if (rank > 0) rule.reduce = FactorKind::sum;
  return rule;
}

PointwiseRule root_rule() { return {.tag = "root_mean_square", .body = sqrt(Expr::input(0))}; }

PointwiseRule scale_rule(double least, double clip) {
  return {.tag = "adafactor_scale", .body = maximum(least, Expr::input(0)) / maximum(1.0, Expr::input(1) / clip)};
}

/// Inputs: p, direction, rate, scale of the direction.
PointwiseRule parameter_rule(double weight_decay) {
  Expr p = Expr::input(0), rate = Expr::input(2);
  Expr moved = p - rate * Expr::input(3) * Expr::input(1);
  return {.tag = "adafactor_parameter", .body = weight_decay == 0 ? moved : moved - rate * weight_decay * p};
}

}  // namespace

Tensor adafactor_decay(double exponent, std::source_location where) {
  Tensor out = pointwise(decay_rule(exponent), {}, where);
  Trace::current().set_name(out, "adafactor.decay", {});
  return out;
}

Tensor adafactor_relative_step(std::source_location where) { return pointwise(relative_step_rule(), {}, where); }

Tensor adafactor_moment(Operand v, Operand gradient, Operand scale, Operand decay, double epsilon,
                        std::optional<int> dim) {
  CallScope scope(v.where);
  Tensor moment = as_tensor(v), g = as_tensor(gradient), factor = as_tensor(scale), kept = as_tensor(decay);
  if (!dim) return pointwise(full_moment_rule(epsilon), {moment, g, factor, kept}, v.where);
  Tensor squares = pointwise(squares_rule(*dim, g.size(*dim), epsilon), {g, factor});
  return pointwise(moment_rule(), {moment, squares, kept}, v.where);
}

Tensor adafactor_direction(Operand gradient, Operand scale, Operand v) {
  return pointwise(full_direction_rule(), {as_tensor(gradient), as_tensor(scale), as_tensor(v)}, gradient.where);
}

Tensor adafactor_direction(Operand gradient, Operand scale, Operand rows, Operand columns) {
  CallScope scope(gradient.where);
  Tensor g = as_tensor(gradient), r = as_tensor(rows), c = as_tensor(columns);
  std::vector<int64_t> by_row = g.shape(), by_column = g.shape();
  by_row[by_row.size() - 1] = 1;
  by_column[by_column.size() - 2] = 1;
  Tensor average = reshape(mean(r, -1, true), [&] {
    std::vector<int64_t> shape = by_row;
    shape[shape.size() - 2] = 1;
    return shape;
  }());
  return pointwise(direction_rule(), {g, as_tensor(scale), reshape(r, by_row), reshape(c, by_column), average},
                   gradient.where);
}

Tensor root_mean_square(Operand x) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x);
  return pointwise(root_rule(), {pointwise(mean_square_rule(in.rank(), element_count(in.shape())), {in})}, x.where);
}

Tensor adafactor_scale(Operand p, Operand direction, double least, double clip) {
  CallScope scope(p.where);
  return pointwise(scale_rule(least, clip), {root_mean_square(p), root_mean_square(direction)}, p.where);
}

Tensor adafactor_parameter(Operand p, Operand direction, Operand rate, Operand scale, double weight_decay) {
  return pointwise(parameter_rule(weight_decay),
                   {as_tensor(p), as_tensor(direction), as_tensor(rate), as_tensor(scale)}, p.where);
}

OperatorInfo adafactor_info() {
  OperatorSample::Domain any{}, positive{0.1, 2};
  return {"adafactor",
          "Adafactor: factored second moments and parameter update.",
          {{pointwise_operator(decay_rule(0.8)), {}, {}},
           {pointwise_operator(relative_step_rule()), {}, {}},
           {pointwise_operator(squares_rule(1, 4, 0.5)), floats({{3, 4}, {}}), {}},
           {pointwise_operator(moment_rule()), floats({{5}, {5}, {}}), {}},
           {pointwise_operator(full_moment_rule(0.5)), floats({{5}, {5}, {}, {}}), {}},
           {pointwise_operator(full_direction_rule()), floats({{5}, {}, {5}}), {any, any, positive}},
           {pointwise_operator(direction_rule()),
            floats({{2, 3, 4}, {}, {2, 3, 1}, {2, 1, 4}, {2, 1, 1}}),
            {any, any, positive, positive, positive}},
           {pointwise_operator(mean_square_rule(2, 12)), floats({{3, 4}}), {}},
           {pointwise_operator(root_rule()), floats({{}}), {positive}},
           {pointwise_operator(scale_rule(1e-3, 1)), floats({{}, {}}), {positive, {1.1, 2}}},
           {pointwise_operator(parameter_rule(0.1)), floats({{3, 4}, {3, 4}, {}, {}}), {}}}};
}

}  // namespace hetsynth
