#include "dsl/ir/differentiate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "dsl/ops/div.h"
#include "dsl/ops/loss_scale.h"
#include "dsl/ops/mul.h"

namespace hetsynth {
namespace {

/// Which nodes a gradient must pass: those that depend on one of `by` and on the way to the loss.
std::vector<bool> depends_on(const Trace& trace, const std::vector<Tensor>& by, NodeId last) {
  std::vector<bool> depends(last + 1, false);
  for (Tensor t : by)
    if (t.node() <= last) depends[t.node()] = true;
  for (NodeId id = 0; id <= last; ++id) {
    const Node& node = trace.program[id];
    if (trace.stopped.count(id)) {
      depends[id] = false;
      continue;
    }
    for (NodeId input : node.inputs) depends[id] = depends[id] || depends[input];
  }
  return depends;
}

/// While alive, nodes are named and placed after the forward node whose gradient they belong to.
class BackwardOf {
 public:
  BackwardOf(Trace& trace, NodeId node) : trace_(trace), saved_node_(trace.backward_of), saved_scope_(trace.scope) {
    trace.backward_of = node;
    trace.scope = trace.program[node].where;
  }
  ~BackwardOf() {
    trace_.backward_of = saved_node_;
    trace_.scope = saved_scope_;
  }

 private:
  Trace& trace_;
  NodeId saved_node_;
  SourceLocation saved_scope_;
};

struct VjpResult {
  std::vector<Tensor> inputs;
  std::vector<Tensor> gradients;
};

VjpResult run_vjp(Trace& trace, NodeId id, Tensor gradient) {
  VjpArguments arguments{{}, Tensor(id), gradient};
  if (auto custom = trace.custom_gradients.find(id); custom != trace.custom_gradients.end()) {
    arguments.inputs = custom->second.inputs;
    return {arguments.inputs, custom->second.vjp(arguments)};
  }
  for (NodeId input : trace.program[id].inputs) arguments.inputs.push_back(Tensor(input));
  std::shared_ptr<const Operator> op = trace.program[id].op;  // the node may move while gradients are appended
  return {arguments.inputs, op->vjp(arguments)};
}

/// Unnamed nodes are called after the variable they flow into: "h.einsum"; repeated names gain a number.
void complete_names(Program& program) {
  std::vector<std::string> base(program.nodes.size());
  for (size_t i = program.nodes.size(); i-- > 0;) {
    Node& node = program.nodes[i];
    if (!node.name.empty()) base[i] = node.name;
    if (base[i].empty()) base[i] = "t";
    for (NodeId input : node.inputs)
      if (program[input].name.empty() && base[input].empty()) base[input] = base[i];
  }
  std::map<std::string, int> used;
  std::set<std::string> taken;
  for (Node& node : program.nodes) {
    std::string wish = node.name.empty() ? base[node.id] + "." + std::string(node.tag()) : node.name;
    int& count = used[wish];
    std::string unique = wish;
    while (!taken.insert(unique).second) unique = fmt::format("{}_{}", wish, ++count + 1);
    node.name = unique;
  }
}

void check_gradient_type(const Program& program, NodeId of, Tensor gradient) {
  HETSYNTH_CHECK(program[gradient.node()].type.shape == program[of].type.shape,
                 fmt::format("gradient of {} ({}) has shape {}, not {}", program[of].name, program[of].tag(),
                             text(program[gradient.node()].type.shape), text(program[of].type.shape)));
}

}  // namespace

namespace {

/// "d_w1": a gradient is called after what it is the gradient of.
void name_gradient(Program& program, Tensor gradient, NodeId of, const char* suffix = "") {
  program.nodes[gradient.node()].name = "d_" + program[of].name + suffix;
}

/// Adds a contribution to the gradient of `of`. The sum takes its name; contributions made for it become its parts.
Tensor add_contribution(Trace& trace, Tensor so_far, Tensor contribution, NodeId of) {
  std::string name = "d_" + trace.program[of].name;
  for (Tensor t : {so_far, contribution})
    if (trace.program[t.node()].name == name) name_gradient(trace.program, t, of, ".part");
  BackwardOf scope(trace, of);
  return accumulate(so_far, contribution);
}

}  // namespace

namespace {

/// Makes the values of checkpointed regions again, each when the backward pass first comes to it.
class Recomputation {
 public:
  explicit Recomputation(Trace& trace) : trace_(trace) {}

  /// The region's number, -1 if the node is in none.
  int region_of(NodeId node) const {
    for (size_t r = 0; r < trace_.recomputed.size(); ++r)
      if (trace_.recomputed[r].first <= node && node < trace_.recomputed[r].last) return int(r);
    return -1;
  }

  void make_again(int region) {
    if (region < 0 || !made_.insert(region).second) return;
    for (NodeId id = trace_.recomputed[region].first; id < trace_.recomputed[region].last; ++id) {
      if (trace_.program[id].leaf()) continue;
      Node copy = trace_.program[id];
      copy.id = NodeId(trace_.program.nodes.size());
      copy.name += ".again";
      copy.phase = Phase::backward;
      copy.recomputation = region + 1;
      for (NodeId& input : copy.inputs) input = now(input, region);
      again_[id] = copy.id;
      trace_.program.nodes.push_back(std::move(copy));
    }
  }

  /// Lets the nodes from `first` on, emitted for a gradient inside of the region, read what was made again.
  void redirect(NodeId first, int region) {
    if (region < 0) return;
    for (size_t i = size_t(first); i < trace_.program.nodes.size(); ++i)
      for (NodeId& input : trace_.program.nodes[i].inputs) input = now(input, region);
  }

 private:
  NodeId now(NodeId node, int region) const {
    const Trace::Region& r = trace_.recomputed[size_t(region)];
    auto found = node >= r.first && node < r.last ? again_.find(node) : again_.end();
    return found == again_.end() ? node : found->second;
  }

  Trace& trace_;
  std::set<int> made_;
  std::map<NodeId, NodeId> again_;
};

}  // namespace

std::vector<Tensor> gradients(Tensor loss, const std::vector<Tensor>& by) {
  Trace& trace = Trace::current();
  Recomputation recomputation(trace);
  std::vector<bool> depends = depends_on(trace, by, loss.node());
  std::vector<Tensor> adjoint(loss.node() + 1);
  {
    BackwardOf scope(trace, loss.node());
    adjoint[loss.node()] = as_tensor(Operand(1.0));
  }
  for (NodeId id = loss.node(); id >= 0; --id) {
    if (!adjoint[id].defined() || !depends[id] || trace.program[id].leaf()) continue;
    BackwardOf scope(trace, id);
    int region = recomputation.region_of(id);
    recomputation.make_again(region);
    int before = int(trace.program.nodes.size());
    VjpResult result = run_vjp(trace, id, adjoint[id]);
    recomputation.redirect(before, region);
    HETSYNTH_CHECK(result.gradients.size() == result.inputs.size(), "a vjp answers for every input");
    for (size_t j = 0; j < result.inputs.size(); ++j) {
      NodeId input = result.inputs[j].node();
      if (!result.gradients[j].defined() || !depends[input]) continue;
      check_gradient_type(trace.program, input, result.gradients[j]);
      Tensor gradient = result.gradients[j];
      if (gradient.node() >= before) name_gradient(trace.program, gradient, input);
      adjoint[input] = adjoint[input].defined() ? add_contribution(trace, adjoint[input], gradient, input) : gradient;
    }
  }
  std::vector<Tensor> out;
  for (Tensor t : by) out.push_back(t.node() <= loss.node() ? adjoint[t.node()] : Tensor());
  return out;
}

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
      if (one[p].defined())
        sums[p] = sums[p].defined() ? add_contribution(trace, sums[p], one[p], parameters[p].node()) : one[p];
  }
  if (std::vector<Tensor> all = defined(sums); trace.dynamic_scale && !all.empty())
    trace.dynamic_scale->overflows = count_overflows(all, trace.dynamic_scale->where);
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
  complete_names(program);
  std::vector<Tensor> parameters;
  for (const Node& node : program.nodes)
    if (node.kind == NodeKind::parameter) parameters.push_back(Tensor(node.id));

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
                     .found = fmt::format("{} parameters", parameters.size()),
                     .mend = "check that the loss is computed from the parameters and not through stop_gradient"});
  trace.phase = Phase::update;
  if (trace.dynamic_scale)
    update_with_dynamic_scale(trace, trained, their_gradients);
  else
    trace.optimizer(trained, their_gradients);
  complete_names(program);
  return simplify(program);
}

}  // namespace hetsynth
