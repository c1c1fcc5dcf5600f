#include "dsl/transform/differentiate.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dsl/base/counted.h"
#include "dsl/ir/evaluation.h"
#include "dsl/ops/alternation.h"
#include "dsl/ops/div.h"
#include "dsl/ops/loss_scale.h"
#include "dsl/ops/mul.h"
#include "dsl/transform/backward.h"
#include "dsl/transform/complete_names.h"
#include "dsl/transform/evaluation.h"
#include "dsl/transform/metrics.h"
#include "dsl/transform/parameter_groups.h"
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

/// Gradients of one group's loss, summed over micro-batches.
struct GroupGradients {
  std::vector<Tensor> sums;  ///< by parameter of the group
  Tensor total, count;
};

/// Adds the micro-batch's part of loss and gradients.
void add_micro_batch(Trace& trace, const Trace::MicroLoss& loss, const std::vector<Tensor>& parameters,
                     GroupGradients& of) {
  const auto add = [](Tensor a, Tensor b) { return a.defined() ? accumulate(a, b) : b; };
  trace.phase = Phase::forward;
  bool mean_of_equals = !loss.count.defined() && trace.micro_batches > 1;
  Tensor part = mean_of_equals ? mul(loss.total, 1.0 / trace.micro_batches) : loss.total;
  of.total = add(of.total, part);
  if (loss.count.defined()) of.count = add(of.count, loss.count);
  complete_names(trace.program);
  trace.phase = Phase::backward;
  const std::vector<Tensor> one = gradients(scaled(part, trace), parameters);
  for (size_t p = 0; p < parameters.size(); ++p)
    if (one[p].defined()) of.sums[p] = add_contribution(trace, of.sums[p], one[p], parameters[p].node());
}

/// Gradients by group, summed over the step's micro-batches: each is traced, run forward and backward before the next,
/// so that the activations of only one are alive. Sets the program's loss.
std::vector<std::vector<Tensor>> step_gradients(Trace& trace, const std::vector<TrainedGroup>& groups) {
  std::vector<GroupGradients> of;
  for (const TrainedGroup& group : groups) of.push_back({std::vector<Tensor>(group.parameters.size()), {}, {}});
  for (int i = 0; i < trace.micro_batches; ++i) {
    if (i > 0) trace.trace_next_micro_batch();
    for (size_t g = 0; g < groups.size(); ++g) {
      const std::vector<Trace::MicroLoss>& losses = trace.minimized[g].losses;
      HETSYNTH_CHECK(int(losses.size()) == i + 1, "every micro-batch has its loss");
      add_micro_batch(trace, losses[size_t(i)], groups[g].parameters, of[g]);
    }
  }
  std::vector<Tensor> all;
  for (const GroupGradients& group : of)
    for (Tensor sum : defined(group.sums)) all.push_back(sum);
  if (trace.dynamic_scale && !all.empty())
    trace.dynamic_scale->magnitude = sum_of_magnitudes(all, trace.dynamic_scale->where);
  add_metrics(trace);
  std::vector<std::vector<Tensor>> out;
  for (GroupGradients& group : of) {
    for (Tensor& sum : group.sums) {
      if (!sum.defined()) continue;
      sum = unscaled(sum, trace);
      if (group.count.defined()) sum = div(sum, group.count);
    }
    out.push_back(std::move(group.sums));
  }
  Tensor loss = of.front().total;
  if (of.front().count.defined()) loss = div(loss, of.front().count);
  trace.program.loss = loss.node();
  return out;
}

/// What an update becomes takes the name of what it was.
void replace_update(Program& program, Update& update, Tensor kept) {
  std::swap(program.nodes[size_t(kept.node())].name, program.nodes[size_t(update.value)].name);
  update.value = kept.node();
}

/// The group's optimizer, whose updates take effect in the group's steps alone.
void update_group(Trace& trace, const Trace::Minimized& minimized, const TrainedGroup& group,
                  const std::vector<Tensor>& gradients) {
  Program& program = trace.program;
  const size_t first = program.updates.size();
  {
    const CountedSteps counted(group.steps);
    minimized.optimizer(group.parameters, gradients);
  }
  if (group.steps.always()) return;
  CallScope scope(minimized.where);
  Tensor due = group_is_due(group.steps, minimized.where);
  trace.set_name(due, minimized.group.name + ".due", {});
  for (size_t i = first; i < program.updates.size(); ++i) {
    Update& update = program.updates[i];
    replace_update(program, update, if_due(due, Tensor(update.value), Tensor(update.target)));
  }
}

/// Updates from number `first` on take effect only if no gradient overflowed, and the scale of the next step follows
/// from that.
void keep_where_overflowed(Trace& trace, size_t first) {
  Program& program = trace.program;
  const Trace::DynamicScale& now = *trace.dynamic_scale;
  CallScope scope(now.where);
  for (size_t i = first; i < program.updates.size(); ++i) {
    Update& update = program.updates[i];
    replace_update(program, update, unless_overflowed(now.magnitude, Tensor(update.value), Tensor(update.target)));
  }
  LossScaleState next = next_loss_scale({now.scale, now.good_steps}, now.magnitude, now.rule);
  for (auto [state, value] : {std::pair(now.scale, next.scale), {now.good_steps, next.good_steps}}) {
    trace.set_name(value, program[state.node()].name + ".next", {});
    program.updates.push_back({state.node(), value.node()});
  }
}

/// Leaves out the parameters that the group's loss does not depend on. Throws UserError if none is left.
void keep_influential(const Trace& trace, const Trace::Minimized& minimized, TrainedGroup& group,
                      std::vector<Tensor>& gradients) {
  const std::vector<Tensor> all = std::exchange(group.parameters, {});
  for (size_t i = 0; i < all.size(); ++i)
    if (gradients[i].defined()) group.parameters.push_back(all[i]);
  gradients = defined(std::move(gradients));
  if (!group.parameters.empty()) return;
  const std::string& name = minimized.group.name;
  throw UserError({.where = trace.program[minimized.losses.front().total.node()].where,
                   .tag = "minimize",
                   .message = name.empty() ? "no parameter influences the loss"
                                           : fmt::format("no parameter of {} influences its loss", name),
                   .found = counted(int64_t(all.size()), "parameter") + " that could be trained",
                   .mend = "check that the loss is computed from the parameters and not through stop_gradient"});
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
  if (trace.minimized.empty())
    throw UserError({.where = {program.model_file},
                     .message = "the model has no loss to minimise",
                     .expected = "one call of minimize(loss, AdamW{...}) or minimize(loss, SGD{...})",
                     .found = fmt::format("{} tensors and no such call", program.nodes.size()),
                     .mend = "end model() with minimize(loss, AdamW{})"});
  if (is_evaluation(trace)) return evaluation_program(trace);
  complete_names(program);
  std::vector<TrainedGroup> groups = trained_groups(trace);
  std::vector<std::vector<Tensor>> gradients = step_gradients(trace, groups);
  for (size_t g = 0; g < groups.size(); ++g) keep_influential(trace, trace.minimized[g], groups[g], gradients[g]);
  trace.phase = Phase::update;
  const size_t first = program.updates.size();  // statistics that the model keeps itself come from the forward pass
  for (size_t g = 0; g < groups.size() && trace.tells_gradient_norm; ++g)
    add_gradient_norm(trace, trace.minimized[g], gradients[g]);
  for (size_t g = 0; g < groups.size(); ++g) update_group(trace, trace.minimized[g], groups[g], gradients[g]);
  if (trace.dynamic_scale) keep_where_overflowed(trace, first);
  complete_names(program);
  Program step = simplify(program);
  const TurnCount count = asked_turns(trace);
  if (count.turns == 1) return step;
  trace.whole_step = std::move(step);
  return in_turns(*trace.whole_step, count);
}

}  // namespace hetsynth
