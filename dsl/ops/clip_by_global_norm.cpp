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

}  // namespace

Tensor global_norm_scale(const std::vector<Tensor>& gradients, double limit, std::source_location where) {
  CallScope scope(where);
  HETSYNTH_CHECK(!gradients.empty(), "clipping needs a gradient");
  Trace& trace = Trace::current();
  Tensor total;
  for (Tensor gradient : gradients) {
    Tensor squares = pointwise(squares_rule(), {gradient});
    trace.set_name(squares, trace.program[gradient.node()].name + ".squares", {});
    total = total.defined() ? total + squares : squares;
    trace.set_name(total, "squares_so_far", {});
  }
  Tensor scale = pointwise(scale_rule(limit), {total});
  trace.set_name(scale, "clip_scale", {});
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
           {pointwise_operator(scale_rule(0.5)), floats({{}}), {{0.5, 3}}}}};
}

}  // namespace hetsynth
