// What a model wants of its loss: minimize, and the marks output, metric and stop_gradient.
#include "dsl/model/minimize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dsl/include/hetsynth/model.h"
#include "dsl/ir/trace.h"
#include "dsl/model/optimizers.h"
#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

void require(bool holds, const char* optimizer, const char* setting, const char* expected, double found,
             const std::source_location& where) {
  if (holds && std::isfinite(found)) return;
  throw UserError({.where = location(where),
                   .tag = optimizer,
                   .message = fmt::format("{} is out of range", setting),
                   .expected = std::isfinite(found) ? expected : "a finite number",
                   .found = fmt::format("{}", found)});
}

void check_schedule(const char* optimizer, const Schedule& s, int64_t warmup_steps, const std::source_location& where) {
  using Kind = Schedule::Kind;
  bool ends = s.kind == Kind::linear || s.kind == Kind::cosine;
  require(!ends || s.steps > warmup_steps, optimizer, "schedule.steps", "more steps than warmup_steps", double(s.steps),
          where);
  require(s.kind != Kind::step || s.steps > 0, optimizer, "schedule.steps", "1 or more", double(s.steps), where);
  require(s.factor > 0, optimizer, "schedule.factor", "more than 0", s.factor, where);
  require(s.final >= 0, optimizer, "schedule.final", "0 or more", s.final, where);
}

/// What all optimizers share.
void check_common(const char* optimizer, const auto& o, const std::source_location& where) {
  require(o.learning_rate >= 0, optimizer, "learning_rate", "0 or more", o.learning_rate, where);
  require(o.weight_decay >= 0, optimizer, "weight_decay", "0 or more", o.weight_decay, where);
  require(o.clip_norm >= 0, optimizer, "clip_norm", "0 (no clipping) or more", o.clip_norm, where);
  require(o.warmup_steps >= 0, optimizer, "warmup_steps", "0 or more", double(o.warmup_steps), where);
  check_schedule(optimizer, o.schedule, o.warmup_steps, where);
}

void check_adam(const char* optimizer, const auto& o, const std::source_location& where) {
  check_common(optimizer, o, where);
  require(o.beta1 >= 0 && o.beta1 < 1, optimizer, "beta1", "0 <= beta1 < 1", o.beta1, where);
  require(o.beta2 >= 0 && o.beta2 < 1, optimizer, "beta2", "0 <= beta2 < 1", o.beta2, where);
  require(o.epsilon > 0, optimizer, "epsilon", "more than 0", o.epsilon, where);
}

void require_scalar(const char* tag, Tensor loss, const char* what, const std::source_location& where) {
  if (loss.defined() && loss.shape().empty() && loss.dtype() == DType::f32) return;
  throw Trace::current().at_call(
      UserError({.tag = tag,
                 .message = fmt::format("{} must be a scalar", what),
                 .expected = "f32[]",
                 .found = loss.defined() ? text(TensorType{loss.shape(), loss.dtype()}) : "no tensor of this model",
                 .mend = "take the mean of it"}),
      loss.defined() ? std::vector<Tensor>{loss} : std::vector<Tensor>{}, location(where));
}

/// A group as far as it can be looked at alone and beside those of the calls before.
void check_group(const ParameterGroup& group, const std::vector<Trace::Minimized>& before,
                 const std::source_location& where) {
  const auto anonymous = [](const ParameterGroup& g) { return g.name.empty() || g.parameters.empty(); };
  if (!before.empty() && (anonymous(group) || anonymous(before.front().group)))
    refuse_group(where, "a model minimises one loss, and this is the second call",
                 "one call, or groups of parameters that each have a loss",
                 anonymous(group) ? "a call without a group" : "a first call without a group",
                 "add the losses up, or name the parameters of each: minimize(loss, Adam{}, {.name = \"generator\", "
                 ".parameters = \"generator\\\\.\"})");
  if (group.name.empty() != group.parameters.empty())
    refuse_group(where, "a group needs a name, and a pattern of its parameters' names",
                 "{.name = \"generator\", .parameters = \"generator\\\\.\"}",
                 group.name.empty() ? "no name" : "no pattern", "give both, or leave the group out");
  constexpr int64_t most_steps = 1'000'000;
  if (group.steps < 0 || group.steps > most_steps)
    refuse_group(where, fmt::format("the steps of {} are out of range", group.name),
                 fmt::format("0 (every step) to {}", most_steps), fmt::format("{}", group.steps),
                 "leave them out to train it in every step");
  for (const Trace::Minimized& other : before) {
    if (other.group.name == group.name)
      refuse_group(where, fmt::format("two groups are called {}", group.name), "a name of its own for each",
                   fmt::format("\"{}\" again", group.name), "give one of them another name");
    if ((other.group.steps > 0) != (group.steps > 0))
      refuse_group(
          where, "groups take turns, or are trained in every step", "steps of all groups, or of none",
          fmt::format("{} steps of {}, {} of {}", other.group.steps, other.group.name, group.steps, group.name),
          "give .steps to each group, or to none");
  }
}

/// What a further micro-batch minimises is the next loss that the first one did.
Trace::Minimized& next_minimized(Trace& trace, const ParameterGroup& group, const std::source_location& where) {
  const auto open = std::ranges::find_if(
      trace.minimized, [&](const Trace::Minimized& m) { return int(m.losses.size()) <= trace.micro_batch; });
  if (open == trace.minimized.end() || open->group.name != group.name)
    refuse_group(where, "what is minimised differs from one micro-batch to the next",
                 "the same calls whenever model() runs", group.name.empty() ? "one call more" : group.name,
                 "let model() depend on nothing but its options");
  return *open;
}

void set_loss(const Loss& loss, const ParameterGroup& group, OptimizerStep step, const std::source_location& where) {
  Trace& trace = Trace::current();
  const bool is_new = trace.micro_batch == 0;
  if (is_new) check_group(group, trace.minimized, where);
  require_scalar("minimize", loss.total, "the loss", where);
  if (loss.count.defined()) require_scalar("minimize", loss.count, "the count", where);
  if (is_new) trace.minimized.push_back({group, std::move(step), where, {}});
  Trace::Minimized& minimized = is_new ? trace.minimized.back() : next_minimized(trace, group, where);
  minimized.losses.push_back({loss.total, loss.count});
  const bool is_first = &minimized == &trace.minimized.front();
  if (!is_first) metric(group.name.c_str(), loss, where);
  if (is_new && is_first) trace.program.loss = loss.total.node();
}

/// Whether an output or a metric has that name.
bool is_read_as(const Trace& trace, const std::string& name) {
  const auto has_name = [&](const auto& other) { return other.name == name; };
  return std::ranges::any_of(trace.program.outputs, has_name) || std::ranges::any_of(trace.metrics, has_name);
}

}  // namespace

void minimize(Loss loss, const AdamW& o, const ParameterGroup& group, std::source_location where) {
  check_adam("AdamW", o, where);
  set_loss(
      loss, group, [=](const auto& p, const auto& g) { take_step(o, p, g, where); }, where);
}

void minimize(Loss loss, const Adam& o, const ParameterGroup& group, std::source_location where) {
  check_adam("Adam", o, where);
  set_loss(
      loss, group, [=](const auto& p, const auto& g) { take_step(o, p, g, where); }, where);
}

void minimize(Loss loss, const LAMB& o, const ParameterGroup& group, std::source_location where) {
  check_adam("LAMB", o, where);
  set_loss(
      loss, group, [=](const auto& p, const auto& g) { take_step(o, p, g, where); }, where);
}

void minimize(Loss loss, const Adafactor& o, const ParameterGroup& group, std::source_location where) {
  Adafactor with_rate = o;
  if (o.learning_rate == 0) with_rate.learning_rate = 1;
  check_common("Adafactor", with_rate, where);
  require(o.decay_exponent > 0, "Adafactor", "decay_exponent", "more than 0", o.decay_exponent, where);
  require(o.gradient_epsilon > 0, "Adafactor", "gradient_epsilon", "more than 0", o.gradient_epsilon, where);
  require(o.parameter_epsilon > 0, "Adafactor", "parameter_epsilon", "more than 0", o.parameter_epsilon, where);
  require(o.clip_direction > 0, "Adafactor", "clip_direction", "more than 0", o.clip_direction, where);
  set_loss(
      loss, group, [=](const auto& p, const auto& g) { take_step(o, p, g, where); }, where);
}

void minimize(Loss loss, const SGD& o, const ParameterGroup& group, std::source_location where) {
  check_common("SGD", o, where);
  require(o.momentum >= 0 && o.momentum < 1, "SGD", "momentum", "0 <= momentum < 1", o.momentum, where);
  require(!o.nesterov || o.momentum > 0, "SGD", "momentum", "more than 0 for Nesterov's momentum", o.momentum, where);
  set_loss(
      loss, group, [=](const auto& p, const auto& g) { take_step(o, p, g, where); }, where);
}

void output(const char* name, Tensor tensor, std::source_location where) {
  Trace& trace = Trace::current();
  if (trace.micro_batch > 0) return;  // the first one's is read
  auto fail = [&](const std::string& message, const char* mend) {
    throw UserError({.where = location(where), .tag = "output", .message = message, .mend = mend});
  };
  if (!tensor.defined()) fail(fmt::format("{} is no tensor of this model", name), "give the variable a value first");
  if (is_read_as(trace, name)) fail(fmt::format("there are two outputs named {}", name), "give each a name of its own");
  trace.program.outputs.push_back({name, tensor.node()});
}

void metric(const char* name, Loss value, std::source_location where) {
  Trace& trace = Trace::current();
  require_scalar("metric", value.total, "a metric", where);
  if (value.count.defined()) require_scalar("metric", value.count, "the count", where);
  const auto same = std::ranges::find_if(trace.metrics, [&](const Trace::Metric& m) { return m.name == name; });
  const bool again = same != trace.metrics.end() && int(same->parts.size()) <= trace.micro_batch;
  if (again) {
    same->parts.push_back({value.total, value.count});
    return;
  }
  const std::string unfit = unfit_name(name), found = unfit.empty() ? fmt::format("\"{}\"", name) : unfit;
  const auto fail = [&](const std::string& message, const std::string& expected, const char* mend) {
    throw UserError({.where = location(where),
                     .tag = "metric",
                     .message = message,
                     .expected = expected,
                     .found = found,
                     .mend = mend});
  };
  if (std::string_view(name).empty())
    fail("a metric needs a name", "a name", "it is told by that name beside the loss");
  if (!unfit.empty() || std::string_view(name) == "loss")
    fail("a metric, or a group with a loss of its own, cannot be called so",
         fmt::format("{}, and not \"loss\"", fit_names), "it stands beside the loss on one line: give it another name");
  if (is_read_as(trace, name))
    fail(fmt::format("there are two metrics or outputs named {}", name), "one of a name",
         "give each a name of its own");
  if (trace.micro_batch > 0)
    fail(fmt::format("the metric {} is new in a further micro-batch", name), "the same metrics whenever model() runs",
         "let model() depend on nothing but its options");
  trace.metrics.push_back({name, {{value.total, value.count}}});
}

CheckpointScope::CheckpointScope() {
  Trace& trace = Trace::current();
  outermost_ = !trace.in_checkpoint;
  trace.in_checkpoint = true;
  first_ = int(trace.program.nodes.size());
}

CheckpointScope::~CheckpointScope() {
  if (!outermost_) return;
  Trace& trace = Trace::current();
  trace.in_checkpoint = false;
  trace.recomputed.push_back({first_, NodeId(trace.program.nodes.size())});
}

Tensor stop_gradient(Operand tensor) {
  // A copy of its own: marking the tensor itself would stop the gradient of its other uses too.
  Tensor copy = pointwise({.tag = "stop_gradient", .body = Expr::input(0)}, {as_tensor(tensor)}, tensor.where);
  Trace::current().stop_gradient(copy);
  return copy;
}

}  // namespace hetsynth
