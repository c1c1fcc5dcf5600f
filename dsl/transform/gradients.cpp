// Reverse-mode differentiation of the traced program.
#include <fmt/format.h>

#include <map>

#include "dsl/ir/recomputation.h"
#include "dsl/transform/backward.h"
#include "dsl/transform/differentiate.h"
#include "dsl/transform/loop_gradient.h"

namespace hetsynth {
namespace {

/// Which nodes a gradient must pass: those that depend on one of `by` and on the way to the loss.
std::vector<bool> depends_on(const Trace& trace, const std::vector<Tensor>& by, NodeId last) {
  std::vector<bool> depends(last + 1, false);
  for (Tensor t : by)
    if (t.node() <= last) depends[t.node()] = true;
  // Once more for every loop whose next turn is reached by what its last turn was not.
  for (bool complete = false; !complete;) {
    for (NodeId id = 0; id <= last; ++id) {
      const Node& node = trace.program[id];
      if (trace.stopped.count(id)) {
        depends[id] = false;
        continue;
      }
      for (NodeId input : node.inputs) depends[id] = depends[id] || depends[input];
    }
    complete = true;
    for (const TurnLoop& loop : trace.program.loops)
      for (const TurnLoop::Carry& c : loop.carries) {
        bool known = c.carry <= last && c.next >= 0 && c.next <= last;
        if (known && depends[c.next] && !depends[c.carry]) depends[c.carry] = true, complete = false;
      }
  }
  return depends;
}

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

void check_gradient_type(const Program& program, NodeId of, Tensor gradient) {
  HETSYNTH_CHECK(program[gradient.node()].type.shape == program[of].type.shape,
                 fmt::format("gradient of {} ({}) has shape {}, not {}", program[of].name, program[of].tag(),
                             text(program[gradient.node()].type.shape), text(program[of].type.shape)));
}

/// The sweep over the forward pass from the loss back.
class Sweep {
 public:
  Sweep(Trace& trace, const std::vector<Tensor>& by, NodeId loss)
      : trace_(trace), recomputation_(trace), depends_(depends_on(trace, by, loss)), adjoint_(loss + 1) {
    BackwardOf scope(trace, loss);
    adjoint_[loss] = as_tensor(Operand(1.0));
  }

  void run() {
    for (NodeId id = NodeId(adjoint_.size()) - 1; id >= 0; --id) {
      if (!adjoint_[id].defined() || !depends_[id] || trace_.program[id].leaf()) continue;
      if (trace_.program[id].loop >= 0 && !replaces_loop(id))
        pass_loop(trace_.program[id].loop);
      else
        pass(id);
    }
  }

  Tensor of(Tensor t) const { return t.node() < NodeId(adjoint_.size()) ? adjoint_[t.node()] : Tensor(); }

 private:
  void pass(NodeId id) {
    BackwardOf scope(trace_, id);
    const int region = recomputation_.region_of(id);
    recomputation_.make_again(region);
    const NodeId before = NodeId(trace_.program.nodes.size());
    std::vector<Contribution> made = contributions(trace_, id, adjoint_[id], depends_);
    recomputation_.redirect(before, region);
    take(made);
  }

  /// A stack's own gradient speaks of tensors outside of the loop that fills it.
  bool replaces_loop(NodeId id) const {
    return trace_.custom_gradients.count(id) > 0 && stacked_dim(trace_.program[id].space) >= 0;
  }

  /// Gradients reach a loop by its stacks and by what it leaves behind, all of them known when the sweep comes to the
  /// last of its nodes.
  void pass_loop(int loop) {
    std::vector<Contribution> arrived;
    int region = -1;
    for (NodeId id = NodeId(adjoint_.size()) - 1; id >= 0; --id) {
      if (trace_.program[id].loop != loop || !adjoint_[id].defined()) continue;
      region = recomputation_.region_of(id);
      if (!depends_[id]) continue;
      if (replaces_loop(id))
        pass(id);
      else
        arrived.push_back({id, adjoint_[id]});
      adjoint_[id] = {};
    }
    recomputation_.make_again(region);
    const NodeId before = NodeId(trace_.program.nodes.size());
    std::vector<Contribution> made = loop_contributions(trace_, loop, NodeId(adjoint_.size()), arrived, depends_);
    recomputation_.redirect(before, region);
    take(made);
  }

  void take(const std::vector<Contribution>& made) {
    for (const Contribution& c : made) adjoint_[c.of] = add_contribution(trace_, adjoint_[c.of], c.gradient, c.of);
  }

  Trace& trace_;
  Recomputation recomputation_;
  std::vector<bool> depends_;
  std::vector<Tensor> adjoint_;
};

}  // namespace

std::vector<Contribution> contributions(Trace& trace, NodeId node, Tensor gradient, const std::vector<bool>& depends) {
  const NodeId before = NodeId(trace.program.nodes.size());
  VjpResult result = run_vjp(trace, node, gradient);
  HETSYNTH_CHECK(result.gradients.size() == result.inputs.size(), "a vjp answers for every input");
  std::vector<Contribution> out;
  for (size_t j = 0; j < result.inputs.size(); ++j) {
    NodeId input = result.inputs[j].node();
    if (!result.gradients[j].defined() || !depends[input]) continue;
    check_gradient_type(trace.program, input, result.gradients[j]);
    if (result.gradients[j].node() >= before) name_gradient(trace.program, result.gradients[j], input);
    out.push_back({input, result.gradients[j]});
  }
  return out;
}

void name_gradient(Program& program, Tensor gradient, NodeId of, const char* suffix) {
  program.nodes[gradient.node()].name = "d_" + program[of].name + suffix;
}

Tensor add_contribution(Trace& trace, Tensor so_far, Tensor contribution, NodeId of) {
  if (!so_far.defined()) return contribution;
  std::string name = "d_" + trace.program[of].name;
  for (Tensor t : {so_far, contribution})
    if (trace.program[t.node()].name == name) name_gradient(trace.program, t, of, ".part");
  BackwardOf scope(trace, of);
  return accumulate(so_far, contribution);
}

std::vector<Tensor> gradients(Tensor loss, const std::vector<Tensor>& by) {
  Sweep sweep(Trace::current(), by, loss.node());
  sweep.run();
  std::vector<Tensor> out;
  for (Tensor t : by) out.push_back(sweep.of(t));
  return out;
}

}  // namespace hetsynth
