#include "dsl/model/optimizers.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "dsl/base/error.h"
#include "dsl/ir/trace.h"
#include "dsl/ops/adafactor.h"
#include "dsl/ops/adamw.h"
#include "dsl/ops/clip_by_global_norm.h"
#include "dsl/ops/lamb.h"
#include "dsl/ops/learning_rate.h"
#include "dsl/ops/mul.h"
#include "dsl/ops/sgd.h"

namespace hetsynth {
namespace {

constexpr std::array<std::string_view, 5> state_suffixes = {".m", ".v", ".rows", ".columns", ".velocity"};

/// Optimizer state of a parameter, "w1.m" of the shape given, zero at the start.
Tensor add_state(Tensor parameter, const char* suffix, const Shape& shape, const std::source_location& where) {
  HETSYNTH_CHECK(std::ranges::find(state_suffixes, suffix) != state_suffixes.end(), suffix);
  Trace& trace = Trace::current();
  const Node& of = trace.program[parameter.node()];
  return trace.add_leaf(NodeKind::state, of.name + suffix, {shape, of.type.dtype}, where);
}

/// At the end of the step `target` becomes `value`, which is named after it.
void becomes(Tensor target, Tensor value) {
  Trace& trace = Trace::current();
  trace.set_name(value, trace.program[target.node()].name + ".next", {});
  trace.program.updates.push_back({target.node(), value.node()});
}

Operand clipping(const std::vector<Tensor>& gradients, double clip_norm, const std::source_location& where) {
  if (clip_norm <= 0) return Operand(1.0, where);
  return Operand(global_norm_scale(gradients, clip_norm, where), where);
}

const ParameterOptions& options_of(Tensor parameter) {
  static const ParameterOptions as_all_others;
  const Trace& trace = Trace::current();
  const auto found = trace.parameter_options.find(parameter.node());
  return found == trace.parameter_options.end() ? as_all_others : found->second;
}

double decay_of(double weight_decay, Tensor parameter) {
  return options_of(parameter).weight_decay.value_or(parameter.rank() >= 2 ? weight_decay : 0);
}

/// The learning rate of a parameter.
Operand rate_of(const Operand& rate, Tensor parameter) {
  const double scale = options_of(parameter).learning_rate_scale;
  if (scale == 1) return rate;
  return rate.is_number ? Operand(rate.number * scale, rate.where) : Operand(mul(rate, scale), rate.where);
}
AdamWRates rates_of(AdamWRates rates, const Tensor& parameter, const std::source_location& where) {
  rates.learning_rate = rate_of(Operand(rates.learning_rate, where), parameter).tensor;
  return rates;
}

struct Moments {
  Tensor first, second;
};

/// Adam's moments after this step; `scale` is the clipping factor or 1.
Moments next_moments(Tensor p, Tensor gradient, const Operand& scale, double beta1, double beta2,
                     const std::source_location& where) {
  Tensor m = add_state(p, ".m", p.shape(), where), v = add_state(p, ".v", p.shape(), where);
  Moments next{adamw_first_moment(m, gradient, scale, beta1), adamw_second_moment(v, gradient, scale, beta2)};
  becomes(m, next.first);
  becomes(v, next.second);
  return next;
}

AdamWRates adam_rates(const auto& o, const std::source_location& where) {
  return adamw_rates(learning_rate(o.learning_rate, o.warmup_steps, o.schedule, where), o.beta1, o.beta2, where);
}

/// The common part of AdamW and LAMB: `step` gives the new parameter from the moments after this step.
template <class Options, class Step>
void step_by_moments(const Options& o, const std::vector<Tensor>& parameters, const std::vector<Tensor>& gradients,
                     const std::source_location& where, const Step& step) {
  CallScope scope(where);
  Operand scale = clipping(gradients, o.clip_norm, where);
  AdamWRates rates = adam_rates(o, where);
  for (size_t i = 0; i < parameters.size(); ++i) {
    Tensor p = parameters[i];
    const Moments next = next_moments(p, gradients[i], scale, o.beta1, o.beta2, where);
    becomes(p, step(p, next, rates_of(rates, p, where)));
  }
}

}  // namespace

std::string parameter_of_state(const std::string& name) {
  for (const std::string_view suffix : state_suffixes)
    if (name.ends_with(suffix)) return name.substr(0, name.size() - suffix.size());
  return "";
}

void take_step(const AdamW& o, const std::vector<Tensor>& parameters, const std::vector<Tensor>& gradients,
               const std::source_location& where) {
  step_by_moments(o, parameters, gradients, where, [&](Tensor p, const Moments& next, const AdamWRates& rates) {
    return adamw_parameter(p, next.first, next.second, rates, o.epsilon, decay_of(o.weight_decay, p));
  });
}

void take_step(const Adam& o, const std::vector<Tensor>& parameters, const std::vector<Tensor>& gradients,
               const std::source_location& where) {
  CallScope scope(where);
  Operand scale = clipping(gradients, o.clip_norm, where), unscaled(1.0, where);
  AdamWRates rates = adam_rates(o, where);
  for (size_t i = 0; i < parameters.size(); ++i) {
    Tensor p = parameters[i];
    double decay = decay_of(o.weight_decay, p);
    Moments next = decay == 0 ? next_moments(p, gradients[i], scale, o.beta1, o.beta2, where)
                              : next_moments(p, decayed_gradient(p, gradients[i], scale, decay), unscaled, o.beta1,
                                             o.beta2, where);
    becomes(p, adamw_parameter(p, next.first, next.second, rates_of(rates, p, where), o.epsilon, 0));
  }
}

void take_step(const LAMB& o, const std::vector<Tensor>& parameters, const std::vector<Tensor>& gradients,
               const std::source_location& where) {
  step_by_moments(o, parameters, gradients, where, [&](Tensor p, const Moments& next, const AdamWRates& rates) {
    const double decay = decay_of(o.weight_decay, p);
    if (p.rank() < 2) return adamw_parameter(p, next.first, next.second, rates, o.epsilon, decay);
    Tensor direction =
        lamb_direction(p, next.first, next.second, rates.first_correction, rates.second_correction, o.epsilon, decay);
    return lamb_parameter(p, direction, rates.learning_rate, lamb_trust_ratio(p, direction));
  });
}

void take_step(const Adafactor& o, const std::vector<Tensor>& parameters, const std::vector<Tensor>& gradients,
               const std::source_location& where) {
  CallScope scope(where);
  Tensor one = as_tensor(Operand(1.0, where));
  Operand clip = clipping(gradients, o.clip_norm, where), scale = clip.is_number ? Operand(one, where) : clip;
  Tensor decay = adafactor_decay(o.decay_exponent, where);
  Tensor rate = learning_rate(o.learning_rate > 0 ? o.learning_rate : 1.0, o.warmup_steps, o.schedule, where);
  if (o.learning_rate == 0) rate = rate * adafactor_relative_step(where);
  for (size_t i = 0; i < parameters.size(); ++i) {
    Tensor p = parameters[i], g = gradients[i], direction;
    if (p.rank() < 2) {
      Tensor v = add_state(p, ".v", p.shape(), where);
      Tensor next = adafactor_moment(v, g, scale, decay, o.gradient_epsilon);
      becomes(v, next);
      direction = adafactor_direction(g, scale, next);
    } else {
      Shape by_row(p.shape().begin(), p.shape().end() - 1), by_column = by_row;
      by_column.back() = p.size(-1);
      Tensor rows = add_state(p, ".rows", by_row, where), columns = add_state(p, ".columns", by_column, where);
      Tensor next_rows = adafactor_moment(rows, g, scale, decay, o.gradient_epsilon, p.rank() - 1);
      Tensor next_columns = adafactor_moment(columns, g, scale, decay, o.gradient_epsilon, p.rank() - 2);
      becomes(rows, next_rows);
      becomes(columns, next_columns);
      direction = adafactor_direction(g, scale, next_rows, next_columns);
    }
    Operand size = o.scale_by_parameter ? Operand(p, where) : Operand(one, where);
    Tensor length = adafactor_scale(size, direction, o.parameter_epsilon, o.clip_direction);
    becomes(p,
            adafactor_parameter(p, direction, rate_of(Operand(rate, where), p), length, decay_of(o.weight_decay, p)));
  }
}

void take_step(const SGD& o, const std::vector<Tensor>& parameters, const std::vector<Tensor>& gradients,
               const std::source_location& where) {
  CallScope scope(where);
  bool constant = o.warmup_steps == 0 && o.schedule.kind == Schedule::Kind::constant;
  Operand rate(o.learning_rate, where), clip = clipping(gradients, o.clip_norm, where), unscaled(1.0, where);
  if (!constant) rate = Operand(learning_rate(o.learning_rate, o.warmup_steps, o.schedule, where), where);
  for (size_t i = 0; i < parameters.size(); ++i) {
    Tensor p = parameters[i], g = gradients[i];
    Operand scale = clip;
    if (double decay = decay_of(o.weight_decay, p); decay != 0) {
      g = decayed_gradient(p, g, scale, decay);
      scale = unscaled;
    }
    if (o.momentum == 0) {
      becomes(p, sgd_parameter(p, g, scale, rate_of(rate, p)));
      continue;
    }
    Tensor v = add_state(p, ".velocity", p.shape(), where);
    Tensor v_next = sgd_velocity(v, g, scale, o.momentum);
    becomes(v, v_next);
    Tensor direction = o.nesterov ? sgd_nesterov(v_next, g, scale, o.momentum) : v_next;
    becomes(p, sgd_parameter(p, direction, unscaled, rate_of(rate, p)));
  }
}

}  // namespace hetsynth
