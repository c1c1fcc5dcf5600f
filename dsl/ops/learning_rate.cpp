#include "dsl/ops/learning_rate.h"

#include <fmt/format.h>

#include <cmath>

#include "dsl/ops/support/alternation.h"
#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

/// Share of the way from the end of warm-up to the last step, in [0, 1].
Expr progress(int64_t warmup_steps, int64_t steps) {
  return minimum(1.0, maximum(0.0, (optimizer_step() - double(warmup_steps)) / double(steps - warmup_steps)));
}

Expr factor(const Schedule& s, int64_t warmup_steps) {
  Expr way = s.steps > warmup_steps ? progress(warmup_steps, s.steps) : Expr(1.0);
  double first = double(warmup_steps < 1 ? 1 : warmup_steps);
  switch (s.kind) {
    case Schedule::Kind::linear:
      return 1.0 - (1 - s.final) * way;
    case Schedule::Kind::cosine:
      return s.final + (0.5 * (1 - s.final)) * (1.0 + cos(M_PI * way));
    case Schedule::Kind::step:
      return power(s.factor, floor(optimizer_step() / double(s.steps)));
    case Schedule::Kind::exponential:
      return power(s.factor, optimizer_step());
    case Schedule::Kind::inverse_sqrt:
      return sqrt(minimum(1.0, first / maximum(1.0, optimizer_step())));
    case Schedule::Kind::constant:
      break;
  }
  return 1.0;
}

PointwiseRule rule(double rate, int64_t warmup_steps, const Schedule& schedule) {
  Expr body = rate;
  if (warmup_steps > 0) body = rate * minimum(1.0, (optimizer_step() + 1.0) / double(warmup_steps));
  if (schedule.kind != Schedule::Kind::constant) body = body * factor(schedule, warmup_steps);
  return {.tag = "learning_rate", .body = body};
}

}  // namespace

Schedule linear_schedule(int64_t steps, double final) { return {Schedule::Kind::linear, steps, 1, final}; }
Schedule cosine_schedule(int64_t steps, double final) { return {Schedule::Kind::cosine, steps, 1, final}; }
Schedule step_schedule(int64_t steps, double factor) { return {Schedule::Kind::step, steps, factor, 0}; }
Schedule exponential_schedule(double factor) { return {Schedule::Kind::exponential, 0, factor, 0}; }
Schedule inverse_sqrt_schedule() { return {Schedule::Kind::inverse_sqrt, 0, 1, 0}; }

Tensor learning_rate(double rate, int64_t warmup_steps, const Schedule& schedule, std::source_location where) {
  Tensor out = pointwise(rule(rate, warmup_steps, schedule), {}, where);
  Trace::current().set_name(out, "learning_rate", {});
  return out;
}

OperatorInfo learning_rate_info() {
  std::vector<OperatorSample> samples;
  for (const Schedule& s : {Schedule{}, linear_schedule(9, 0.1), cosine_schedule(9), step_schedule(2, 0.5),
                            exponential_schedule(0.9), inverse_sqrt_schedule()})
    samples.push_back({pointwise_operator(rule(0.5, 2, s)), {}, {}});
  return {"learning_rate", "The learning rate of a step.", samples};
}

}  // namespace hetsynth
