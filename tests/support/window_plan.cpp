#include "tests/support/window_plan.h"

#include <algorithm>
#include <map>

#include "dsl/base/error.h"
#include "tests/support/plan_builder.h"

namespace hetsynth::test {
namespace {

class WindowPlan {
 public:
  WindowPlan(const Program& reference, const std::vector<CutAxis>& axes)
      : reference_(reference), axes_(axes), builder_(reference, mesh_axes(axes)) {
    for (size_t a = 0; a < axes.size(); ++a)
      builder_.table(axes[a].name, int(a), axes[a].bounds.back(), axes[a].bounds);
  }

  SpmdProgram run(const std::set<std::string>& cut_leaves) {
    for (const Node& node : reference_.nodes)
      made_.push_back(node.leaf() ? leaf(node, cut_leaves.count(node.name) > 0) : computed(node));
    for (const Update& update : reference_.updates)
      builder_.plan.finals.push_back(
          {update.target,
           held_as(update.value, builder_.plan.values[size_t(made_[size_t(update.target)])].placements)});
    for (const NamedOutput& output : reference_.outputs) {  // of what is partial nobody holds anything that can be read
      Placements readable = builder_.plan.values[size_t(made_[size_t(output.node)])].placements;
      for (Placement& placement : readable)
        if (placement.kind == Placement::Kind::partial) placement = Placement::replicated();
      held_as(output.node, readable);
    }
    if (reference_.loss >= 0) builder_.plan.loss = held_as(reference_.loss, Placements(axes_.size()));
    return std::move(builder_.plan);
  }

 private:
  static std::vector<Mesh::Axis> mesh_axes(const std::vector<CutAxis>& axes) {
    std::vector<Mesh::Axis> out;
    for (const CutAxis& axis : axes) out.push_back({axis.name, int(axis.bounds.size()) - 1});
    return out;
  }

  ValueId leaf(const Node& node, bool cut) {
    Placements placements(axes_.size());
    for (size_t a = 0; cut && a < axes_.size(); ++a) placements[a] = Placement::sharded(axes_[a].dim, int(a));
    return builder_.leaf(node.id, placements);
  }

  ValueId computed(const Node& node) {
    std::vector<Split> splits;
    for (size_t a = 0; a < axes_.size(); ++a) splits.push_back(division(node, a));
    std::vector<ValueId> operands;
    for (size_t j = 0; j < node.inputs.size(); ++j) {
      Placements wanted;
      for (size_t a = 0; a < axes_.size(); ++a) wanted.push_back(*needed(node, j, splits[a]));
      operands.push_back(held_as(node.inputs[j], wanted));
    }
    const ValueId result = builder_.compute(node.id, operands, splits);
    std::string reason;
    HETSYNTH_CHECK(infer_placements(builder_.plan, reference_, builder_.plan.instructions.back(), &reason), reason);
    return result;
  }

  Split division(const Node& node, size_t axis) const {
    for (int f = 0; f < int(node.space.factors.size()); ++f) {
      const Split split{f, int(axis)};
      if (node.space.factors[size_t(f)].size % axes_[axis].bounds.back() == 0 && divides(node, axis, split))
        return split;
    }
    return {};
  }

  bool divides(const Node& node, size_t axis, const Split& split) const {
    bool fits = false;
    for (size_t j = 0; j < node.inputs.size(); ++j) {
      const auto placement = needed(node, j, split);
      if (!placement) return false;
      const Placement now = builder_.plan.values[size_t(made_[size_t(node.inputs[j])])].placements[axis];
      fits = fits || (placement->kind == Placement::Kind::sharded && now.kind == Placement::Kind::sharded &&
                      now.dim == placement->dim);
    }
    const FactorKind kind = node.space.factors[size_t(split.factor)].kind;
    if (kind == FactorKind::sum) return fits;
    const auto cut = cut_of(node.space, node.space.output, node.type.shape, split.factor);
    return kind == FactorKind::parallel && cut && cut->dim == axes_[axis].dim && node.type.shape.size() == 4;
  }

  /// How devices must hold operand j for the division; nullopt if it cannot be had.
  std::optional<Placement> needed(const Node& node, size_t j, const Split& split) const {
    const Access& access = node.space.inputs[j];
    const Shape& shape = reference_[node.inputs[j]].type.shape;
    if (split.factor < 0 || !mentions_factor(access, split.factor)) return Placement::replicated();
    if (const auto cut = cut_of(node.space, access, shape, split.factor))
      return Placement::sharded(cut->dim, split.table);
    if (const auto windows = window_cut_of(node.space, access, shape, split.factor))
      return Placement::overlapping(windows->dim, split.table, windows->before, windows->after);
    return std::nullopt;
  }

  /// Whole where it is to be whole or cut otherwise, then cut, then with halos.
  ValueId held_as(NodeId node, const Placements& wanted) {
    const ValueId made = made_[size_t(node)];
    auto [entry, fresh] = held_.try_emplace({made, text(builder_.plan.mesh, wanted)}, made);
    if (!fresh) return entry->second;
    ValueId now = made;
    const auto at = [&](size_t a) { return builder_.plan.values[size_t(now)].placements[a]; };
    for (size_t a = 0; a < wanted.size(); ++a) {
      if (at(a).kind == Placement::Kind::partial) now = builder_.all_reduce(now, int(a));
      if (at(a).kind == Placement::Kind::sharded &&
          at(a).dim != (wanted[a].kind == Placement::Kind::sharded ? wanted[a].dim : -1))
        now = builder_.all_gather(now, int(a));
    }
    for (size_t a = 0; a < wanted.size(); ++a)
      if (at(a).kind == Placement::Kind::replicated && wanted[a].kind == Placement::Kind::sharded)
        now = builder_.slice(now, int(a), wanted[a].dim, wanted[a].table);
    for (size_t a = 0; a < wanted.size(); ++a)
      if (wanted[a].overlaps()) now = builder_.halo_exchange(now, int(a), wanted[a].before, wanted[a].after);
    return held_[{made, text(builder_.plan.mesh, wanted)}] = now;
  }

  const Program& reference_;
  const std::vector<CutAxis>& axes_;
  PlanBuilder builder_;
  std::vector<ValueId> made_;  ///< by node
  std::map<std::pair<ValueId, std::string>, ValueId> held_;
};

}  // namespace

SpmdProgram window_plan(const Program& reference, const std::vector<CutAxis>& axes,
                        const std::set<std::string>& cut_leaves) {
  return WindowPlan(reference, axes).run(cut_leaves);
}

int count_of(const SpmdProgram& plan, Opcode opcode) {
  return int(std::ranges::count(plan.instructions, opcode, &Instruction::opcode));
}

}  // namespace hetsynth::test
