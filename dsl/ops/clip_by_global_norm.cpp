#include "dsl/ops/clip_by_global_norm.h"

#include "dsl/ops/add.h"
#include "dsl/ops/mul.h"
#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

PointwiseRule squares_rule() {
  return {.tag = "sum_of_squares", .body = Expr::input(0) * Expr::input(0), .reduce = FactorKind::sum};
}

PointwiseRule scale_rule(double limit) {
  return {.tag = "clip_scale", .body = minimum(1.0, limit / (sqrt(Expr::input(0)) + 1e-6))};
}

PointwiseRule norm_rule() { return {.tag = "gradient_norm", .body = sqrt(Expr::input(0))}; }

/// Adds up the squares of all elements of all gradients.
Tensor sum_of_squares(const std::vector<Tensor>& gradients) {
  HETSYNTH_CHECK(!gradients.empty(), "a norm is of a gradient at least");
  Trace& trace = Trace::current();
  Tensor total;
  for (Tensor gradient : gradients) {
    Tensor squares = pointwise(squares_rule(), {gradient});
    trace.set_name(squares, trace.program[gradient.node()].name + ".squares", {});
    total = total.defined() ? total + squares : squares;
    trace.set_name(total, "squares_so_far", {});
  }
  return total;
}

}  // namespace

Tensor global_norm(const std::vector<Tensor>& gradients, std::source_location where) {
  CallScope scope(where);
  return pointwise(norm_rule(), {sum_of_squares(gradients)});
}

Tensor global_norm_scale(const std::vector<Tensor>& gradients, double limit, std::source_location where) {
  CallScope scope(where);
  Tensor scale = pointwise(scale_rule(limit), {sum_of_squares(gradients)});
  Trace::current().set_name(scale, "clip_scale", {});
  return scale;
}

std::vector<Tensor> clip_by_global_norm(const std::vector<Tensor>& gradients, double limit,
                                        std::source_location where) {
  CallScope scope(where);
  Tensor scale = global_norm_scale(gradients, limit, where);
  std::vector<Tensor> out;
  for (Tensor gradient : gradients) out.push_back(gradient * scale);
  return out;
}

OperatorInfo clip_by_global_norm_info() {
  return {"clip_by_global_norm",
          "Gradient clipping by the norm of all gradients together.",
          {{pointwise_operator(squares_rule()), floats({{3, 4}}), {}},
           {pointwise_operator(norm_rule()), floats({{}}), {{0.5, 3}}},
           {pointwise_operator(scale_rule(0.5)), floats({{}}), {{0.5, 3}}}}};
}

}  // namespace hetsynth
