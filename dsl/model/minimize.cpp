// What a model wants of its loss: the optimizer's part of the training step.
#include <fmt/format.h>

#include "dsl/include/hetsynth/model.h"
#include "dsl/ir/trace.h"
#include "dsl/ops/adamw.h"
#include "dsl/ops/clip_by_global_norm.h"
#include "dsl/ops/sgd.h"
#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

/// Optimizer state of a parameter: "w1.m", zero at the start.
Tensor add_state(Tensor parameter, const char* suffix, const std::source_location& where) {
  Trace& trace = Trace::current();
  const Node& of = trace.program[parameter.node()];
  return trace.add_leaf(NodeKind::state, of.name + suffix, of.type, where);
}

/// At the end of the step `target` becomes `value`, which is named after it.
void update(Tensor target, Tensor value) {
  Trace& trace = Trace::current();
  trace.set_name(value, trace.program[target.node()].name + ".next", {});
  trace.program.updates.push_back({target.node(), value.node()});
}

Operand clipping(const std::vector<Tensor>& gradients, double clip_norm, const std::source_location& where) {
  if (clip_norm <= 0) return Operand(1.0, where);
  return Operand(global_norm_scale(gradients, clip_norm, where), where);
}

void adamw_step(const AdamW& o, const std::vector<Tensor>& parameters, const std::vector<Tensor>& gradients,
                const std::source_location& where) {
  CallScope scope(where);
  Operand scale = clipping(gradients, o.clip_norm, where);
  AdamWRates rates = adamw_rates(o.learning_rate, o.beta1, o.beta2, o.warmup_steps, where);
  for (size_t i = 0; i < parameters.size(); ++i) {
    Tensor p = parameters[i], m = add_state(p, ".m", where), v = add_state(p, ".v", where);
    Tensor m_next = adamw_first_moment(m, gradients[i], scale, o.beta1);
    Tensor v_next = adamw_second_moment(v, gradients[i], scale, o.beta2);
    double decay = p.rank() >= 2 ? o.weight_decay : 0;
    update(m, m_next);
    update(v, v_next);
    update(p, adamw_parameter(p, m_next, v_next, rates, o.epsilon, decay));
  }
}

void sgd_step(const SGD& o, const std::vector<Tensor>& parameters, const std::vector<Tensor>& gradients,
              const std::source_location& where) {
  CallScope scope(where);
  Operand scale = clipping(gradients, o.clip_norm, where), unscaled(1.0, where);
  for (size_t i = 0; i < parameters.size(); ++i) {
    Tensor p = parameters[i];
    if (o.momentum == 0) {
      update(p, sgd_parameter(p, gradients[i], scale, o.learning_rate));
      continue;
    }
    Tensor v = add_state(p, ".velocity", where);
    Tensor v_next = sgd_velocity(v, gradients[i], scale, o.momentum);
    update(v, v_next);
    update(p, sgd_parameter(p, v_next, unscaled, o.learning_rate));
  }
}

void require(bool holds, const char* optimizer, const char* setting, const char* expected, double found,
             const std::source_location& where) {
  if (holds) return;
  throw UserError({.where = location(where),
                   .tag = optimizer,
                   .message = fmt::format("{} is out of range", setting),
                   .expected = expected,
                   .found = fmt::format("{}", found)});
}

void set_loss(Tensor loss, OptimizerStep step, const std::source_location& where) {
  Trace& trace = Trace::current();
  if (trace.optimizer)
    throw UserError({.where = location(where),
                     .tag = "minimize",
                     .message = "a model minimises one loss, and this is the second call",
                     .mend = "add the losses up"});
  if (!loss.defined() || !loss.shape().empty() || loss.dtype() != DType::f32)
    throw trace.at_call(
        UserError({.tag = "minimize",
                   .message = "the loss must be a scalar",
                   .expected = "f32[]",
                   .found = loss.defined() ? text(TensorType{loss.shape(), loss.dtype()}) : "no tensor of this model",
                   .mend = "take the mean of it"}),
        loss.defined() ? std::vector<Tensor>{loss} : std::vector<Tensor>{}, location(where));
  trace.program.loss = loss.node();
  trace.optimizer = std::move(step);
}

}  // namespace

void minimize(Tensor loss, const AdamW& o, std::source_location where) {
  require(o.learning_rate > 0, "AdamW", "learning_rate", "more than 0", o.learning_rate, where);
  require(o.beta1 >= 0 && o.beta1 < 1, "AdamW", "beta1", "0 <= beta1 < 1", o.beta1, where);
  require(o.beta2 >= 0 && o.beta2 < 1, "AdamW", "beta2", "0 <= beta2 < 1", o.beta2, where);
  require(o.epsilon > 0, "AdamW", "epsilon", "more than 0", o.epsilon, where);
  require(o.clip_norm >= 0, "AdamW", "clip_norm", "0 (no clipping) or more", o.clip_norm, where);
  set_loss(
      loss, [=](const auto& parameters, const auto& gradients) { adamw_step(o, parameters, gradients, where); }, where);
}

void minimize(Tensor loss, const SGD& o, std::source_location where) {
  require(o.learning_rate > 0, "SGD", "learning_rate", "more than 0", o.learning_rate, where);
  require(o.momentum >= 0 && o.momentum < 1, "SGD", "momentum", "0 <= momentum < 1", o.momentum, where);
  require(o.clip_norm >= 0, "SGD", "clip_norm", "0 (no clipping) or more", o.clip_norm, where);
  set_loss(
      loss, [=](const auto& parameters, const auto& gradients) { sgd_step(o, parameters, gradients, where); }, where);
}

void output(const char* name, Tensor tensor, std::source_location where) {
  Trace& trace = Trace::current();
  auto fail = [&](const std::string& message, const char* mend) {
    throw UserError({.where = location(where), .tag = "output", .message = message, .mend = mend});
  };
  if (!tensor.defined()) fail(fmt::format("{} is no tensor of this model", name), "give the variable a value first");
  for (const NamedOutput& other : trace.program.outputs)
    if (other.name == name) fail(fmt::format("there are two outputs named {}", name), "give each a name of its own");
  trace.program.outputs.push_back({name, tensor.node()});
}

Tensor stop_gradient(Operand tensor) {
  // A copy of its own: marking the tensor itself would stop the gradient of its other uses too.
  Tensor copy = pointwise({.tag = "stop_gradient", .body = Expr::input(0)}, {as_tensor(tensor)}, tensor.where);
  Trace::current().stop_gradient(copy);
  return copy;
}

}  // namespace hetsynth
