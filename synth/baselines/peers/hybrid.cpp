#include "synth/baselines/peers/hybrid.h"

#include <algorithm>

#include "synth/baselines/peers/layers.h"

namespace hetsynth::synth {
namespace {

/// Which values nodes are held to.
class HybridPins {
 public:
  HybridPins(const Problem& problem, const Problem& flat, Hybrid hybrid)
      : p_(problem),
        flat_(flat),
        by_samples_(data_parallel_choices(flat)),
        batch_(batch_class(problem)),
        hybrid_(hybrid),
        is_sum_(problem.program.nodes.size(), 0) {
    for (const TurnLoop& loop : p_.program.loops)
      for (const TurnLoop::Carry& c : loop.carries) is_sum_[c.carry] = is_sum_[c.next] = 1;
  }

  Pins pins() const {
    Pins out;
    for (const Node& node : p_.program.nodes) {
      if (node.kind == NodeKind::parameter || node.kind == NodeKind::state)
        out[node.id] = kept_forms(node);
      else if (!node.leaf() && node.phase != Phase::update)
        out[node.id] = options(node);
    }
    return out;
  }

 private:
  bool cut(const Node& leaf) const {
    if (hybrid_.cut == KeptCut::nothing) return false;
    return leaf.kind == NodeKind::state || (hybrid_.cut == KeptCut::all && p_.program.loops.empty());
  }

  std::vector<int> kept_forms(const Node& leaf) const {
    std::vector<int> cut_forms, whole;
    for (const int f : p_.rules.leaf_forms(leaf)) {
      const AxisForm& outer = p_.rules.forms[leaf.id][f].on[0];
      (outer.sharded() ? cut_forms : whole).push_back(f);
    }
    return cut(leaf) && !cut_forms.empty() ? cut_forms : whole;
  }

  int class_along(const Node& node, const Option& option, int axis) const {
    const int factor = option.factor[size_t(axis)];
    return factor < 0 ? -1 : p_.classes.factors[node.id][size_t(factor)];
  }

  /// Along the first axis as in data parallelism alone, but for sums over turns that are cut.
  bool suits_first(const Node& node, const Option& option) const {
    const Option& wanted = flat_.rules.option(node.id, by_samples_[node.id]);
    const AxisForm& outer = p_.rules.forms[node.id][option.form].on[0];
    const AxisForm& usual = flat_.rules.forms[node.id][wanted.form].on[0];
    if (hybrid_.cut == KeptCut::all && is_sum_[node.id] && usual.partial() && !node.type.shape.empty())
      return outer.sharded();
    return option.factor[0] == wanted.factor[0] && outer == usual;
  }

  std::vector<int> options(const Node& node) const {
    const auto& all = p_.rules.options[node.id];
    std::vector<int> suited, products, alike;
    for (int i = 0; i < int(all.size()); ++i) {
      if (!suits_first(node, all[i])) continue;
      const int inner = p_.rules.axes > 1 ? class_along(node, all[i], 1) : -1;
      const Form& form = p_.rules.forms[node.id][all[i].form];
      if (!hybrid_.tensor || inner != batch_ || inner < 0) suited.push_back(i);
      if (inner >= 0 && inner != batch_) products.push_back(i);
      if (all[i].factor[1] == all[i].factor[0] && form.on[1].kind == form.on[0].kind) alike.push_back(i);
    }
    if (p_.rules.axes == 1) return suited;
    if (!hybrid_.tensor) return alike.empty() ? suited : alike;
    return is_parameter_product(p_.program, node) && !products.empty() ? products : suited;
  }

  const Problem& p_;
  const Problem& flat_;
  const Choices by_samples_;  ///< on one axis
  const int batch_;
  const Hybrid hybrid_;
  std::vector<char> is_sum_;  ///< by node: it is carried from turn to turn
};

}  // namespace

Choices hybrid_choices(const AtShares& at, const Problem& flat, Hybrid hybrid) {
  Pins pins = HybridPins(at.problem, flat, hybrid).pins();
  const bool possible = std::ranges::none_of(pins, [](const auto& pin) { return pin.second.empty(); });
  return possible ? at.cheapest(pins) : Choices{};
}

}  // namespace hetsynth::synth
