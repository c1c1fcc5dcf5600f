#include "dsl/ops/loss_scale.h"

#include <cfloat>

#include "dsl/ops/add.h"
#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

constexpr double smallest = 0x1p-126, largest = 0x1p126;

/// A comparison with NaN does not hold, so that NaN counts too.
PointwiseRule overflows_rule() {
  const Expr x = Expr::input(0);
  return {.tag = "count_overflows",
          .body = select(less_equal(maximum(x, -x), double(FLT_MAX)), Expr(0.0), Expr(1.0)),
          .reduce = FactorKind::sum};
}

/// Inputs: overflows, next, before.
PointwiseRule keep_rule() {
  return {.tag = "unless_overflowed", .body = select(less(0.0, Expr::input(0)), Expr::input(2), Expr::input(1))};
}

/// Inputs: overflows, good steps.
Expr overflowed() { return less(0.0, Expr::input(0)); }
Expr interval_is_over(const DynamicLossScale& rule) { return less_equal(double(rule.interval), Expr::input(1) + 1.0); }

PointwiseRule steps_rule(const DynamicLossScale& rule) {
  const Expr more = select(interval_is_over(rule), Expr(0.0), Expr::input(1) + 1.0);
  return {.tag = "good_steps", .body = select(overflowed(), Expr(0.0), more)};
}

/// Inputs: overflows, good steps, scale.
PointwiseRule scale_rule(const DynamicLossScale& rule) {
  const Expr scale = Expr::input(2);
  const Expr smaller = maximum(rule.backoff * scale, smallest);
  const Expr larger = minimum(rule.growth * scale, largest);
  return {.tag = "loss_scale", .body = select(overflowed(), smaller, select(interval_is_over(rule), larger, scale))};
}

}  // namespace

Tensor count_overflows(const std::vector<Tensor>& gradients, std::source_location where) {
  CallScope scope(where);
  HETSYNTH_CHECK(!gradients.empty(), "there is a gradient that could overflow");
  Trace& trace = Trace::current();
  Tensor total;
  for (Tensor gradient : gradients) {
    Tensor count = pointwise(overflows_rule(), {gradient});
    trace.set_name(count, trace.program[gradient.node()].name + ".overflows", {});
    total = total.defined() ? total + count : count;
    trace.set_name(total, "overflows", {});
  }
  return total;
}

Tensor unless_overflowed(Operand overflows, Operand next, Operand before) {
  return pointwise(keep_rule(), {as_tensor(overflows), as_tensor(next), as_tensor(before)}, overflows.where);
}

LossScaleState next_loss_scale(const LossScaleState& now, Operand overflows, const DynamicLossScale& rule) {
  CallScope scope(overflows.where);
  Tensor count = as_tensor(overflows);
  return {pointwise(scale_rule(rule), {count, now.good_steps, now.scale}),
          pointwise(steps_rule(rule), {count, now.good_steps})};
}

OperatorInfo loss_scale_info() {
  const DynamicLossScale rule{.initial = 8, .growth = 2, .backoff = 0.5, .interval = 2};
  const OperatorSample::Domain flag{-1, 1}, steps{0, 2}, scale{0.5, 4};
  return {"loss_scale",
          "Dynamic loss scaling.",
          {{pointwise_operator(overflows_rule()), floats({{3, 4}}), {}},
           {pointwise_operator(keep_rule()), floats({{}, {2, 3}, {2, 3}}), {flag}},
           {pointwise_operator(scale_rule(rule)), floats({{}, {}, {}}), {flag, steps, scale}},
           {pointwise_operator(steps_rule(rule)), floats({{}, {}}), {flag, steps}}}};
}

}  // namespace hetsynth
