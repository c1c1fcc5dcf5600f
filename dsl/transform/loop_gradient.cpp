#include "dsl/transform/loop_gradient.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "dsl/ir/loops.h"
#include "dsl/ops/constant.h"
#include "dsl/ops/support/turn_operators.h"

namespace hetsynth {
namespace {

class LoopGradient {
 public:
  LoopGradient(Trace& trace, int loop, NodeId end, const std::vector<bool>& depends)
      : trace_(trace), loop_(loop), forward_(trace.program.loops[size_t(loop)]), depends_(depends) {
    for (NodeId id = 0; id < end; ++id)
      if (trace.program[id].loop == loop) nodes_.push_back(id);
  }

  std::vector<Contribution> run(const std::vector<Contribution>& arrived) {
    save();
    std::map<NodeId, Tensor> behind;  // gradients of what the last turn left
    for (const Contribution& a : arrived) {
      HETSYNTH_CHECK(stack_position(trace_.program[a.of]) || is_next(a.of), "a loop leaves stacks and states behind");
      behind[a.of] = a.gradient;
    }
    std::map<NodeId, Tensor> initial;
    for (const TurnLoop::Carry& c : forward_.carries)
      if (depends_[c.carry]) initial[c.carry] = behind.count(c.next) ? behind[c.next] : zeros_like(c.carry);
    find_accumulated();
    for (NodeId outside : accumulated_) initial[outside] = zeros_like(outside);

    LoopScope scope(forward_.turns);
    read_saved();
    for (auto& [of, gradient] : initial) {
      BackwardOf named(trace_, of);
      carries_[of] = scope.carry(gradient);
    }
    for (const TurnLoop::Carry& c : forward_.carries)
      if (depends_[c.carry]) add(c.next, carries_.at(c.carry));
    for (const auto& [of, gradient] : behind)
      if (const TurnPosition* stacked = stack_position(trace_.program[of])) {
        BackwardOf named(trace_, of);
        add(trace_.program[of].inputs[0], at_turn(gradient, stacked->reversed(forward_.turns)));
      }
    for (size_t i = nodes_.size(); i-- > 0;) pass(nodes_[i]);
    finish(scope);
    return std::move(out_);
  }

 private:
  bool inside(NodeId id) const { return trace_.program[id].loop == loop_; }

  bool is_next(NodeId id) const {
    return std::any_of(forward_.carries.begin(), forward_.carries.end(), [&](const auto& c) { return c.next == id; });
  }

  Tensor zeros_like(NodeId of) {
    BackwardOf named(trace_, of);
    return full(trace_.program[of].type.shape, 0.0);
  }

  /// What the body makes, kept for all turns; dropped again (simplify) where no gradient asks for it.
  void save() {
    LoopScope scope(LoopScope::Reopened{loop_});
    const Phase backward = std::exchange(trace_.phase, Phase::forward);
    for (NodeId id : nodes_) {
      if (stack_position(trace_.program[id]) || slice_position(trace_.program[id])) continue;
      BackwardOf placed(trace_, id);
      saved_[id] = stack_turns(Tensor(id), {.dim = 0}, forward_.turns);
      trace_.program.nodes[saved_[id].node()].name = trace_.program[id].name + ".turns";
    }
    trace_.phase = backward;
  }

  void read_saved() {
    for (NodeId id : nodes_) {
      BackwardOf named(trace_, id);
      if (auto kept = saved_.find(id); kept != saved_.end())
        now_[id] = at_turn(kept->second, TurnPosition{.dim = 0}.reversed(forward_.turns)).node();
      else if (const TurnPosition* read = slice_position(trace_.program[id]))
        now_[id] = at_turn(Tensor(trace_.program[id].inputs[0]), read->reversed(forward_.turns)).node();
      if (now_.count(id)) trace_.program.nodes[now_[id]].name = trace_.program[id].name + ".saved";
    }
  }

  /// Tensors of outside that get a gradient from every turn: known before the loop begins, since sums start outside of
  /// it.
  void find_accumulated() {
    for (NodeId id : nodes_) {
      auto custom = trace_.custom_gradients.find(id);
      std::vector<NodeId> inputs = trace_.program[id].inputs;
      if (custom != trace_.custom_gradients.end())
        for (Tensor t : custom->second.inputs) inputs.push_back(t.node());
      bool reads_whole = !slice_position(trace_.program[id]) && trace_.program.next_of(id) < 0;
      for (NodeId input : inputs)
        if (reads_whole && !inside(input) && depends_[input]) accumulated_.insert(input);
    }
  }

  void add(NodeId of, Tensor gradient) { adjoint_[of] = add_contribution(trace_, adjoint_[of], gradient, of); }

  void pass(NodeId id) {
    auto gradient = adjoint_.find(id);
    if (gradient == adjoint_.end() || !depends_[id] || trace_.program.next_of(id) >= 0) return;
    BackwardOf named(trace_, id);
    if (const TurnPosition* read = slice_position(trace_.program[id])) {
      Tensor all = stack_turns(gradient->second, read->reversed(forward_.turns), forward_.turns);
      NodeId of = trace_.program[id].inputs[0];
      name_gradient(trace_.program, all, of);
      out_.push_back({of, all});
      return;
    }
    const NodeId before = NodeId(trace_.program.nodes.size());
    std::vector<Contribution> made = contributions(trace_, id, gradient->second, depends_);
    for (size_t i = size_t(before); i < trace_.program.nodes.size(); ++i)
      for (NodeId& input : trace_.program.nodes[i].inputs)
        if (auto kept = now_.find(input); kept != now_.end()) input = kept->second;
    for (Contribution& c : made) {
      // A gradient that is a value of the body (of a sum by one of its terms, say, through a custom gradient).
      if (auto kept = now_.find(c.gradient.node()); kept != now_.end()) c.gradient = Tensor(kept->second);
      add(c.of, c.gradient);
    }
  }

  void finish(LoopScope& scope) {
    std::map<NodeId, Tensor> last;
    for (auto& [of, carry] : carries_) {
      BackwardOf named(trace_, of);
      Tensor gradient = adjoint_.count(of) ? adjoint_[of] : Tensor();
      if (!inside(of) && gradient.defined()) gradient = accumulate(carry, gradient);
      if (!gradient.defined()) gradient = inside(of) ? zeros_like(of) : carry;
      last[of] = scope.next(carry, gradient);
    }
    scope.close();
    for (auto& [of, gradient] : last) {
      const NodeId target = inside(of) ? trace_.program[of].inputs[0] : of;
      if (!depends_[target]) continue;
      BackwardOf named(trace_, target);
      Tensor total = after_last_turn(gradient);
      name_gradient(trace_.program, total, target);
      out_.push_back({target, total});
    }
  }

  Trace& trace_;
  const int loop_;
  const TurnLoop forward_;
  const std::vector<bool>& depends_;
  std::vector<NodeId> nodes_;         ///< of the forward loop
  std::map<NodeId, Tensor> saved_;    ///< by node: its values of all turns
  std::map<NodeId, NodeId> now_;      ///< by node: its value of the turn that is gone back over
  std::set<NodeId> accumulated_;      ///< tensors of outside whose gradients are summed over the turns
  std::map<NodeId, Tensor> carries_;  ///< gradients of the forward loop's carries, and those sums
  std::map<NodeId, Tensor> adjoint_;  ///< of the body, in one turn
  std::vector<Contribution> out_;
};

}  // namespace

std::vector<Contribution> loop_contributions(Trace& trace, int loop, NodeId end,
                                             const std::vector<Contribution>& arrived,
                                             const std::vector<bool>& depends) {
  if (arrived.empty()) return {};
  return LoopGradient(trace, loop, end, depends).run(arrived);
}

}  // namespace hetsynth
