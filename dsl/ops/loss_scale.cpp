#include "dsl/ops/loss_scale.h"

#include <cfloat>

#include "dsl/ops/add.h"
#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

constexpr double smallest = 0x1p-126, largest = 0x1p126;

PointwiseRule magnitude_rule() {
  const Expr x = Expr::input(0);
  return {.tag = "sum_of_magnitudes", .body = maximum(x, -x), .reduce = FactorKind::sum};
}

/// Input: magnitude. A comparison with NaN does not hold, so that NaN is not finite either.
Expr finite() { return less_equal(Expr::input(0), double(FLT_MAX)); }

/// Inputs: magnitude, next, before.
PointwiseRule keep_rule() {
  return {.tag = "unless_overflowed", .body = select(finite(), Expr::input(1), Expr::input(2))};
}

/// Inputs: magnitude, good steps.
Expr interval_is_over(const DynamicLossScale& rule) { return less_equal(double(rule.interval), Expr::input(1) + 1.0); }

PointwiseRule steps_rule(const DynamicLossScale& rule) {
  const Expr more = select(interval_is_over(rule), Expr(0.0), Expr::input(1) + 1.0);
  return {.tag = "good_steps", .body = select(finite(), more, Expr(0.0))};
}

/// Inputs: magnitude, good steps, scale.
PointwiseRule scale_rule(const DynamicLossScale& rule) {
  const Expr scale = Expr::input(2);
  const Expr smaller = maximum(rule.backoff * scale, smallest);
  const Expr larger = minimum(rule.growth * scale, largest);
  return {.tag = "loss_scale", .body = select(finite(), select(interval_is_over(rule), larger, scale), smaller)};
}

}  // namespace

Tensor sum_of_magnitudes(const std::vector<Tensor>& gradients, std::source_location where) {
  CallScope scope(where);
  HETSYNTH_CHECK(!gradients.empty(), "there is a gradient that could overflow");
  Trace& trace = Trace::current();
  Tensor total;
  for (Tensor gradient : gradients) {
    Tensor magnitude = pointwise(magnitude_rule(), {gradient});
    trace.set_name(magnitude, trace.program[gradient.node()].name + ".magnitude", {});
    total = total.defined() ? total + magnitude : magnitude;
    trace.set_name(total, "magnitude", {});
  }
  return total;
}

Tensor unless_overflowed(Operand magnitude, Operand next, Operand before) {
  return pointwise(keep_rule(), {as_tensor(magnitude), as_tensor(next), as_tensor(before)}, magnitude.where);
}

LossScaleState next_loss_scale(const LossScaleState& now, Operand magnitude, const DynamicLossScale& rule) {
  CallScope scope(magnitude.where);
  Tensor total = as_tensor(magnitude);
  return {pointwise(scale_rule(rule), {total, now.good_steps, now.scale}),
          pointwise(steps_rule(rule), {total, now.good_steps})};
}

OperatorInfo loss_scale_info() {
  const DynamicLossScale rule{.initial = 8, .growth = 2, .backoff = 0.5, .interval = 2};
  // On either side of the largest float32.
  const OperatorSample::Domain magnitude{0, 3 * double(FLT_MAX)}, steps{0, 2}, scale{0.5, 4};
  return {"loss_scale",
          "Dynamic loss scaling.",
          {{pointwise_operator(magnitude_rule()), floats({{3, 4}}), {}},
           {pointwise_operator(keep_rule()), floats({{}, {2, 3}, {2, 3}}), {magnitude}},
           {pointwise_operator(scale_rule(rule)), floats({{}, {}, {}}), {magnitude, steps, scale}},
           {pointwise_operator(steps_rule(rule)), floats({{}, {}}), {magnitude, steps}}}};
}

}  // namespace hetsynth
