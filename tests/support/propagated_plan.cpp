#include "tests/support/propagated_plan.h"

#include <algorithm>
#include <map>

#include "tests/support/plan_builder.h"

namespace hetsynth::test {
namespace {

std::vector<Mesh::Axis> mesh_of(const std::vector<CutAxis>& axes) {
  std::vector<Mesh::Axis> out;
  for (const CutAxis& axis : axes) out.push_back({axis.name, axis.devices});
  return out;
}

class Propagation {
 public:
  Propagation(const Program& reference, const std::vector<CutAxis>& axes, const LeafCut& cut)
      : r_(reference), cut_(cut), b_(reference, mesh_of(axes)) {
    for (size_t a = 0; a < axes.size(); ++a) b_.table(axes[a].name, int(a), axes[a].bounds.back(), axes[a].bounds);
  }

  SpmdProgram run() {
    for (const Node& node : r_.nodes) {
      const ValueId made = node.leaf() ? leaf(node) : compute(node);
      forms_.push_back({made});
    }
    b_.plan.loss = held_as(r_.loss, Placements(size_t(axis_count())));
    for (const Update& update : r_.updates)
      b_.plan.finals.push_back({update.target, held_as(update.value, start_.at(update.target))});
    for (const NamedOutput& output : r_.outputs) held_as(output.node, without_partial(output.node));
    return std::move(b_.plan);
  }

 private:
  int axis_count() const { return int(b_.plan.mesh.axes.size()); }
  bool divides(int axis, int64_t extent) const { return extent % b_.plan.tables[size_t(axis)].extent == 0; }
  const Placements& now(NodeId node) const { return b_.plan.values[size_t(forms_[size_t(node)][0])].placements; }

  ValueId leaf(const Node& node) {
    Placements placements(static_cast<size_t>(axis_count()));
    for (int a = 0; a < axis_count(); ++a) {
      const int dim = cut_(node, a);
      if (dim < 0 || dim >= int(node.type.shape.size()) || !divides(a, node.type.shape[size_t(dim)])) continue;
      const bool taken = std::any_of(placements.begin(), placements.end(), [&](const Placement& p) {
        return p.kind == Placement::Kind::sharded && p.dim == dim;
      });
      if (!taken) placements[size_t(a)] = Placement::sharded(dim, a);
    }
    start_[node.id] = placements;
    return b_.leaf(node.id, placements);
  }

  /// The form of a tensor that is held so, made from its first form if there is none yet.
  ValueId held_as(NodeId node, const Placements& wanted) {
    std::vector<ValueId>& forms = forms_[size_t(node)];
    for (ValueId v : forms)
      if (b_.plan.values[size_t(v)].placements == wanted) return v;
    forms.push_back(b_.moved(forms[0], wanted));
    return forms.back();
  }

  Placements without_partial(NodeId node) const {
    Placements out = now(node);
    for (Placement& p : out)
      if (p.kind == Placement::Kind::partial) p = Placement::replicated();
    return out;
  }

  /// The factor that most operands are cut by on the axis; -1 if none can be divided.
  int factor_for(const Node& node, int axis) const {
    std::vector<int> votes(node.space.factors.size(), 0);
    for (size_t j = 0; j < node.inputs.size(); ++j) {
      const Placement& p = now(node.inputs[j])[size_t(axis)];
      if (p.kind != Placement::Kind::sharded) continue;
      for (size_t f = 0; f < votes.size(); ++f) {
        auto cut = cut_of(node.space, node.space.inputs[j], r_[node.inputs[j]].type.shape, int(f));
        if (cut && cut->dim == p.dim) ++votes[f];
      }
    }
    for (size_t f = 0; f < votes.size(); ++f) {
      const Factor& factor = node.space.factors[f];
      const bool can = factor.kind != FactorKind::whole && divides(axis, factor.size) &&
                       (factor.reduced() || cut_of(node.space, node.space.output, node.type.shape, int(f)));
      if (!can) votes[f] = 0;
    }
    const auto best = std::max_element(votes.begin(), votes.end());
    return best == votes.end() || *best == 0 ? -1 : int(best - votes.begin());
  }

  /// Inputs that are partial sums over the axis, if the body is additive in them together.
  std::set<int> passing_sums(const Node& node, int axis) const {
    std::set<int> partial;
    for (size_t j = 0; j < node.inputs.size(); ++j) {
      const Placement& p = now(node.inputs[j])[size_t(axis)];
      if (p.kind == Placement::Kind::partial && p.reduce == ReduceOp::sum) partial.insert(int(j));
    }
    const bool additive = !partial.empty() && node.space.reduction() != FactorKind::max &&
                          linearity(node.body, partial) == Linearity::linear;
    return additive ? partial : std::set<int>();
  }

  ValueId compute(const Node& node) {
    std::vector<Split> splits(static_cast<size_t>(axis_count()));
    for (int a = 0; a < axis_count(); ++a) {
      const int f = factor_for(node, a);
      const bool taken =
          std::any_of(splits.begin(), splits.end(), [&](const Split& s) { return s.factor == f && f >= 0; });
      if (f >= 0 && !taken) splits[size_t(a)] = {f, a};
    }
    // Axes give way one after the other where the wish has no rule.
    for (int given_up = 0;; ++given_up) {
      if (auto made = attempt(node, splits, given_up < axis_count())) return *made;
      if (given_up < axis_count()) splits[size_t(axis_count() - 1 - given_up)] = {};
    }
  }

  std::optional<ValueId> attempt(const Node& node, const std::vector<Split>& splits, bool pass_sums) {
    std::vector<Placements> wanted(node.inputs.size(), Placements(static_cast<size_t>(axis_count())));
    for (int a = 0; a < axis_count(); ++a) {
      const Split& split = splits[size_t(a)];
      for (size_t j = 0; j < node.inputs.size() && split.factor >= 0; ++j) {
        auto cut = cut_of(node.space, node.space.inputs[j], r_[node.inputs[j]].type.shape, split.factor);
        if (cut) wanted[j][size_t(a)] = Placement::sharded(cut->dim, split.table);
      }
      if (split.factor < 0 && pass_sums)
        for (int j : passing_sums(node, a)) wanted[size_t(j)][size_t(a)] = Placement::partial(ReduceOp::sum);
    }
    Instruction trial;
    trial.node = node.id;
    trial.splits = splits;
    SpmdProgram form{b_.plan.mesh, b_.plan.tables, {}, {}, {}, {}, -1};
    for (size_t j = 0; j < node.inputs.size(); ++j) {
      form.values.push_back({"", node.inputs[j], wanted[j]});
      trial.operands.push_back(int(j));
    }
    std::string reason;
    const std::optional<Placements> made = infer_placements(form, r_, trial, &reason);
    if (!made || cut_twice(*made)) return std::nullopt;
    std::vector<ValueId> operands;
    for (size_t j = 0; j < node.inputs.size(); ++j) operands.push_back(held_as(node.inputs[j], wanted[j]));
    return b_.compute(node.id, operands, splits);
  }

  static bool cut_twice(const Placements& placements) {
    for (size_t a = 0; a < placements.size(); ++a)
      for (size_t b = 0; b < a; ++b)
        if (placements[a].kind == Placement::Kind::sharded && placements[b].kind == Placement::Kind::sharded &&
            placements[a].dim == placements[b].dim)
          return true;
    return false;
  }

  const Program& r_;
  const LeafCut& cut_;
  PlanBuilder b_;
  std::vector<std::vector<ValueId>> forms_;  ///< by node; the first is the one it was made in
  std::map<NodeId, Placements> start_;       ///< of leaves
};

}  // namespace

CutAxis even_axis(const std::string& name, int devices, int64_t units) {
  CutAxis out{name, devices, {0}};
  for (int i = 1; i <= devices; ++i) out.bounds.push_back((units * i + devices - 1) / devices);
  return out;
}

SpmdProgram propagated_plan(const Program& reference, const std::vector<CutAxis>& axes, const LeafCut& cut) {
  return Propagation(reference, axes, cut).run();
}

int batch_and_columns(const Node& leaf, int axis) {
  const int rank = int(leaf.type.shape.size());
  if (leaf.kind == NodeKind::input) return axis == 0 && rank > 0 ? 0 : -1;
  return axis == 1 && rank > 1 ? rank - 1 : -1;
}

}  // namespace hetsynth::test
