#include "dsl/transform/differentiate.h"

#include <fmt/format.h>

#include <algorithm>

#include "dsl/base/counted.h"
#include "dsl/ir/evaluation.h"
#include "dsl/ops/div.h"
#include "dsl/ops/loss_scale.h"
#include "dsl/ops/mul.h"
#include "dsl/transform/backward.h"
#include "dsl/transform/complete_names.h"
#include "dsl/transform/evaluation.h"
#include "dsl/transform/metrics.h"
#include "dsl/transform/trained_parameters.h"
#include "dsl/transform/turns.h"

namespace hetsynth {
namespace {

/// What the backward pass starts from, and its gradients as the optimizer wants them (mixed_precision in model.h).
Tensor scaled(Tensor loss, const Trace& trace) {
  if (trace.dynamic_scale) return mul(loss, trace.dynamic_scale->scale);
  return trace.loss_scale == 1 ? loss : mul(loss, trace.loss_scale);
}
Tensor unscaled(Tensor gradient, const Trace& trace) {
  if (trace.dynamic_scale) return div(gradient, trace.dynamic_scale->scale);
  return trace.loss_scale == 1 ? gradient : mul(gradient, 1 / trace.loss_scale);
}

std::vector<Tensor> defined(std::vector<Tensor> tensors) {
  std::erase_if(tensors, [](Tensor t) { return !t.defined(); });
  return tensors;
}

/// Gradients of the step's loss, summed over its micro-batches: each is traced, run forward and backward before the
/// next, so that the activations of only one are alive. Sets the program's loss.
std::vector<Tensor> step_gradients(Trace& trace, const std::vector<Tensor>& parameters) {
  Program& program = trace.program;
  std::vector<Tensor> sums(parameters.size());
  Tensor total, count;
  auto add = [](Tensor a, Tensor b) { return a.defined() ? accumulate(a, b) : b; };
  for (int i = 0; i < trace.micro_batches; ++i) {
    if (i > 0) trace.trace_next_micro_batch();
    HETSYNTH_CHECK(int(trace.losses.size()) == i + 1, "every micro-batch has its loss");
    const Trace::MicroLoss& loss = trace.losses[size_t(i)];
    bool mean_of_equals = !loss.count.defined() && trace.micro_batches > 1;
    Tensor part = mean_of_equals ? mul(loss.total, 1.0 / trace.micro_batches) : loss.total;
    total = add(total, part);
    if (loss.count.defined()) count = add(count, loss.count);
    complete_names(program);
    trace.phase = Phase::backward;
    std::vector<Tensor> one = gradients(scaled(part, trace), parameters);
    for (size_t p = 0; p < parameters.size(); ++p)
      if (one[p].defined()) sums[p] = add_contribution(trace, sums[p], one[p], parameters[p].node());
  }
  if (std::vector<Tensor> all = defined(sums); trace.dynamic_scale && !all.empty())
    trace.dynamic_scale->overflows = count_overflows(all, trace.dynamic_scale->where);
  add_metrics(trace);
  for (Tensor& sum : sums)
    if (sum.defined()) sum = unscaled(sum, trace);
  if (count.defined()) {
    for (Tensor& sum : sums)
      if (sum.defined()) sum = div(sum, count);
    total = div(total, count);
  }
  program.loss = total.node();
  return sums;
}

}  // namespace

namespace {

/// The optimizer's updates take effect only if no gradient overflowed, and the scale of the next step follows from
/// that.
void update_with_dynamic_scale(Trace& trace, const std::vector<Tensor>& parameters,
                               const std::vector<Tensor>& gradients) {
  Program& program = trace.program;
  const Trace::DynamicScale& now = *trace.dynamic_scale;
  const size_t first = program.updates.size();  // statistics that the model keeps itself come from the forward pass
  trace.optimizer(parameters, gradients);
  CallScope scope(now.where);
  for (size_t i = first; i < program.updates.size(); ++i) {
    Update& update = program.updates[i];
    Tensor kept = unless_overflowed(now.overflows, Tensor(update.value), Tensor(update.target));
    std::swap(program.nodes[size_t(kept.node())].name, program.nodes[size_t(update.value)].name);
    update.value = kept.node();
  }
  LossScaleState next = next_loss_scale({now.scale, now.good_steps}, now.overflows, now.rule);
  for (auto [state, value] : {std::pair(now.scale, next.scale), {now.good_steps, next.good_steps}}) {
    trace.set_name(value, program[state.node()].name + ".next", {});
    program.updates.push_back({state.node(), value.node()});
  }
}

}  // namespace

TurnCount asked_turns(const Trace& trace) {
  const std::optional<TurnCount> count = turn_count(trace.turns);
  if (count && (count->turns == 1 || trace.micro_batches == 1)) return *count;
  if (count)
    throw UserError({.where = {trace.program.model_file},
                     .tag = "turns",
                     .message = "a step of several batches takes them one after the other already",
                     .expected = "--turns or --accumulate",
                     .found = "both",
                     .mend = "leave one of them out"},
                    ExitCode::usage);
  throw UserError(
      {.where = {trace.program.model_file},
       .tag = "turns",
       .message = "this is no number of turns",
       .expected = "a whole number from 1 on, or such a number and \"+1\" for a last turn that stands apart",
       .found = fmt::format("\"{}\"", trace.turns),
       .mend = "--turns 4 takes a step in four turns, each with a fourth of the batch"},
      ExitCode::usage);
}

Program differentiate(Trace& trace) {
  Program& program = trace.program;
  if (!trace.optimizer || program.loss < 0)
    throw UserError({.where = {program.model_file},
                     .message = "the model has no loss to minimise",
                     .expected = "one call of minimize(loss, AdamW{...}) or minimize(loss, SGD{...})",
                     .found = fmt::format("{} tensors and no such call", program.nodes.size()),
                     .mend = "end model() with minimize(loss, AdamW{})"});
  const Node& loss = program[program.loss];
  if (!loss.type.shape.empty() || loss.type.dtype != DType::f32)
    throw UserError({.where = loss.where,
                     .tag = "minimize",
                     .message = "the loss is no scalar",
                     .expected = "f32[]",
                     .found = text(loss.type),
                     .mend = "take the mean or the sum of it"});
  if (is_evaluation(trace)) return evaluation_program(trace);
  complete_names(program);
  const std::vector<Tensor> parameters = trained_parameters(trace);
  std::vector<Tensor> all = step_gradients(trace, parameters);
  std::vector<Tensor> trained, their_gradients;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!all[i].defined()) continue;
    trained.push_back(parameters[i]);
    their_gradients.push_back(all[i]);
  }
  if (trained.empty())
    throw UserError({.where = program[program.loss].where,
                     .tag = "minimize",
                     .message = "no parameter influences the loss",
                     .found = counted(int64_t(parameters.size()), "parameter") + " that could be trained",
                     .mend = "check that the loss is computed from the parameters and not through stop_gradient"});
  trace.phase = Phase::update;
  if (trace.dynamic_scale)
    update_with_dynamic_scale(trace, trained, their_gradients);
  else
    trace.optimizer(trained, their_gradients);
  complete_names(program);
  Program step = simplify(program);
  const TurnCount count = asked_turns(trace);
  if (count.turns == 1) return step;
  trace.whole_step = std::move(step);
  return in_turns(*trace.whole_step, count);
}

}  // namespace hetsynth
