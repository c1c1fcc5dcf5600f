#include "dsl/transform/turn_placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>

namespace hetsynth {
namespace {

using Kind = TurnPlacement::Kind;

[[noreturn]] void refuse(NodeId node, std::string why) { throw TurnsRefused{{node, std::move(why)}}; }

class Placing {
 public:
  Placing(const Program& whole, int64_t turns)
      : in_(whole), turns_(turns), placed_(whole.nodes.size()), after_(whole.nodes.size(), false) {}

  PlacedInTurns run() {
    for (const Node& node : in_.nodes) {
      if (node.loop >= 0) refuse(node.id, "stands in a loop over time steps");
      if (node.kind == NodeKind::input)
        place_input(node);
      else if (!node.leaf())
        place(node);
    }
    for (const Update& u : in_.updates)
      if (placed_[u.value].kind == Kind::sharded) refuse(u.value, "is kept for the next step, and is cut by samples");
    find_early();
    for (size_t i = 0; i < after_.size(); ++i) after_[i] = after_[i] && !early_[i];
    return {std::move(placed_), std::move(parts_), std::move(after_), std::move(early_)};
  }

 private:
  void place_input(const Node& node) {
    if (node.type.shape.empty()) refuse(node.id, "is one number for the whole step");
    if (node.micro_batch.samples_per_step > 0) refuse(node.id, "belongs to a micro-batch");
    placed_[node.id] = {Kind::sharded, 0, -1};
  }

  void place(const Node& node) {
    std::vector<int> cut, summands;
    for (size_t j = 0; j < node.inputs.size(); ++j) {
      const Kind kind = placed_[node.inputs[j]].kind;
      if (kind == Kind::sharded) cut.push_back(int(j));
      if (kind == Kind::partial) summands.push_back(int(j));
    }
    if (cut.empty()) return place_whole(node, summands);
    for (NodeId input : node.inputs)
      if (placed_[input].kind == Kind::partial || after_[input]) read_beside_samples_.push_back({node.id, input});
    const int factor = dividing_factor(node, cut);
    if (factor < 0) refuse(node.id, "computes a sample's values from those of other samples");
    cut_operands(node, factor);
    if (node.space.factors[size_t(factor)].kind == FactorKind::sum)
      placed_[node.id] = {Kind::partial, -1, factor};
    else
      placed_[node.id] = {Kind::sharded, cut_of(node.space, node.space.output, node.type.shape, factor)->dim, factor};
  }

  /// Sums of one turn are added up there, where there are several: all else waits for the complete ones.
  void place_whole(const Node& node, const std::vector<int>& summands) {
    const std::set<int> sums(summands.begin(), summands.end());
    const bool additive = summands.size() > 1 && summands.size() == node.inputs.size() &&
                          node.space.reduction() != FactorKind::max && linearity(node.body, sums) == Linearity::linear;
    if (additive) {
      placed_[node.id] = {Kind::partial, -1, -1};
      return;
    }
    for (NodeId input : node.inputs)
      after_[node.id] = after_[node.id] || after_[input] || placed_[input].kind == Kind::partial;
  }

  /// The loop of the operator that runs over samples: the one that cuts every operand where it is cut. -1 if there is
  /// none.
  int dividing_factor(const Node& node, const std::vector<int>& cut) const {
    for (int f = 0; f < int(node.space.factors.size()); ++f) {
      const Factor& factor = node.space.factors[size_t(f)];
      if (factor.kind == FactorKind::whole || factor.kind == FactorKind::max || factor.size % turns_ != 0) continue;
      if (mentions_index(node, f)) continue;
      const bool fits = std::ranges::all_of(cut, [&](int j) {
        const std::optional<FactorCut> at = cut_of_operand(node, j, f);
        return at && at->dim == placed_[node.inputs[size_t(j)]].dim;
      });
      const bool shows = factor.kind == FactorKind::sum || cut_of(node.space, node.space.output, node.type.shape, f);
      if (fits && shows && draws_as_the_whole(node, f)) return f;
    }
    return -1;
  }

  std::optional<FactorCut> cut_of_operand(const Node& node, int operand, int factor) const {
    const Shape& shape = in_[node.inputs[size_t(operand)]].type.shape;
    return cut_of(node.space, node.space.inputs[size_t(operand)], shape, factor);
  }

  /// Whether the value depends on which sample it is of, other than through what is read and drawn.
  static bool mentions_index(const Node& node, int factor) {
    const auto mentions = [&](const auto& self, const Expr& e) -> bool {
      if (e.kind() == ExprKind::factor) return e.index() == factor;
      return std::ranges::any_of(e.args(), [&](const Expr& arg) { return self(self, arg); });
    };
    return mentions(mentions, node.body);
  }

  /// Random draws are numbered by the element of the whole result: those of a turn stand in one piece if nothing lies
  /// outside of the dimension that is cut.
  static bool draws_as_the_whole(const Node& node, int factor) {
    if (!mentions(node.body, ExprKind::random)) return true;
    const std::optional<FactorCut> cut = cut_of(node.space, node.space.output, node.type.shape, factor);
    if (!cut) return false;
    for (int d = 0; d < cut->dim; ++d)
      if (node.type.shape[size_t(d)] != 1) return false;
    return true;
  }

  /// Operands that all turns have, where an operator reads only the part of a turn.
  void cut_operands(const Node& node, int factor) {
    for (size_t j = 0; j < node.inputs.size(); ++j) {
      const NodeId input = node.inputs[j];
      if (placed_[input].kind == Kind::sharded || !mentions_factor(node.space.inputs[j], factor)) continue;
      const std::optional<FactorCut> cut = cut_of_operand(node, int(j), factor);
      if (!cut) refuse(node.id, fmt::format("reads {} by the number of the sample", in_[input].name));
      demand(input, cut->dim);
    }
  }

  void demand(NodeId id, int dim) {
    if (parts_.contains({id, dim})) return;
    const Node& node = in_[id];
    if (node.leaf() || after_[id] || placed_[id].kind == Kind::partial)
      refuse(id, "has a value of its own for every sample of the step, and is not part of the batch");
    for (int f = 0; f < int(node.space.factors.size()); ++f) {
      const Factor& factor = node.space.factors[size_t(f)];
      const std::optional<FactorCut> cut = cut_of(node.space, node.space.output, node.type.shape, f);
      if (factor.kind != FactorKind::parallel || factor.size % turns_ != 0 || !cut || cut->dim != dim) continue;
      if (mentions_index(node, f) || !draws_as_the_whole(node, f)) continue;
      parts_[{id, dim}] = f;
      return cut_operands(node, f);
    }
    refuse(id, "cannot be computed for the samples of one turn alone");
  }

  /// What sums are computed from that are read beside samples. These must not depend on such sums themselves: their
  /// loop would need one before it.
  void find_early() {
    early_.assign(in_.nodes.size(), false);
    for (const auto& [reader, sum] : read_beside_samples_) early_[sum] = true;
    for (size_t i = in_.nodes.size(); i-- > 0;)
      if (early_[i])
        for (NodeId input : in_.nodes[i].inputs) early_[input] = true;
    for (const auto& [reader, sum] : read_beside_samples_)
      if (early_[reader])
        refuse(reader, fmt::format("reads {}, which is a sum over all samples, and is part of such a sum that samples "
                                   "read",
                                   in_[sum].name));
  }

  const Program& in_;
  const int64_t turns_;
  std::vector<std::pair<NodeId, NodeId>> read_beside_samples_;  ///< who reads it, and what follows from complete sums
  std::vector<bool> early_;                                     ///< by node
  std::vector<TurnPlacement> placed_;                           ///< by node
  std::vector<bool> after_;                                     ///< by node: follows from complete sums
  std::map<std::pair<NodeId, int>, int> parts_;
};

}  // namespace

PlacedInTurns place_in_turns(const Program& whole, int64_t turns) { return Placing(whole, turns).run(); }

}  // namespace hetsynth
