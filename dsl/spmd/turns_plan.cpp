#include "dsl/spmd/turns_plan.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "dsl/base/error.h"

namespace hetsynth {
namespace {

using Kind = TurnPlacement::Kind;

class TurnsPlan {
 public:
  TurnsPlan(const Program& whole, const PlacedInTurns& placed, int turns) : in_(whole), placed_(placed) {
    out_.mesh.axes = {{"turn", turns}};
    BoundaryTable parts{.name = "samples", .axis = 0, .extent = turns};
    for (int i = 0; i <= turns; ++i) parts.bounds.push_back(i);
    out_.tables = {parts};
  }

  SpmdProgram run() {
    for (const Node& node : in_.nodes) add(node);
    for (const Update& u : in_.updates) out_.finals.emplace_back(u.target, complete(u.value));
    if (in_.loss >= 0) out_.loss = complete(in_.loss);
    for (const NamedOutput& o : in_.outputs)
      if (placed_.placements[size_t(o.node)].kind == Kind::partial) complete(o.node);
    return std::move(out_);
  }

 private:
  void add(const Node& node) {
    const TurnPlacement& placed = placed_.placements[size_t(node.id)];
    if (node.leaf()) {
      const ValueId value = make(node.id, placement(placed));
      out_.leaves.push_back(value);
      return;
    }
    compute(node, placed);
    if (placed.kind != Kind::replicated) return;
    for (int dim = 0; dim < int(node.type.shape.size()); ++dim)
      if (const auto part = placed_.parts.find({node.id, dim}); part != placed_.parts.end())
        compute(node, {Kind::sharded, dim, part->second});
  }

  void compute(const Node& node, const TurnPlacement& placed) {
    Instruction instruction;
    instruction.node = node.id;
    for (size_t j = 0; j < node.inputs.size(); ++j) instruction.operands.push_back(operand(node, j, placed));
    instruction.splits = {placed.factor >= 0 ? Split{placed.factor, 0, -1} : Split{}};
    instruction.result = make(node.id, placement(placed));
    out_.instructions.push_back(std::move(instruction));
  }

  ValueId operand(const Node& node, size_t j, const TurnPlacement& placed) {
    const NodeId input = node.inputs[j];
    const TurnPlacement& held = placed_.placements[size_t(input)];
    if (placed.kind == Kind::replicated) return complete(input);
    if (held.kind == Kind::partial && placed.factor >= 0) return complete(input);
    if (held.kind != Kind::replicated) return value_of(input, placement(held));
    if (placed.factor < 0 || !mentions_factor(node.space.inputs[j], placed.factor)) return complete(input);
    const auto cut = cut_of(node.space, node.space.inputs[j], in_[input].type.shape, placed.factor);
    HETSYNTH_CHECK(cut.has_value(), "what is read cut can be cut");
    return value_of(input, Placement::sharded(cut->dim, 0));
  }

  /// A tensor as all turns have it, behind the sum over them if it is one.
  ValueId complete(NodeId id) {
    const Placement whole = Placement::replicated();
    if (placed_.placements[size_t(id)].kind == Kind::partial && !values_.contains({id, text_of(whole)})) {
      Instruction sum;
      sum.opcode = Opcode::all_reduce;
      sum.axis = 0;
      sum.operands = {value_of(id, Placement::partial(ReduceOp::sum))};
      sum.result = make(id, whole);
      out_.instructions.push_back(std::move(sum));
    }
    return value_of(id, whole);
  }

  static Placement placement(const TurnPlacement& placed) {
    if (placed.kind == Kind::sharded) return Placement::sharded(placed.dim, 0);
    return placed.kind == Kind::partial ? Placement::partial(ReduceOp::sum) : Placement::replicated();
  }

  std::string text_of(const Placement& placement) const { return text(out_.mesh, {placement}); }

  ValueId make(NodeId id, const Placement& placement) {
    const std::string how = text_of(placement);
    out_.values.push_back({in_[id].name + "@" + how, id, {placement}});
    const ValueId value = ValueId(out_.values.size()) - 1;
    HETSYNTH_CHECK((values_.emplace(std::pair(id, how), value).second), "a value is made once");
    return value;
  }

  ValueId value_of(NodeId id, const Placement& placement) const { return values_.at({id, text_of(placement)}); }

  const Program& in_;
  const PlacedInTurns& placed_;
  SpmdProgram out_;
  std::map<std::pair<NodeId, std::string>, ValueId> values_;
};

}  // namespace

SpmdProgram plan_of_turns(const Program& whole, const PlacedInTurns& placed, int turns) {
  return TurnsPlan(whole, placed, turns).run();
}

}  // namespace hetsynth
