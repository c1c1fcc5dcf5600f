// What it costs at least to make tensors of the forward phase a second time, after it: where memory has a price, none
// pays more for being kept.
#pragma once
#include <functional>
#include <vector>

#include "synth/model/problem.h"

namespace hetsynth::synth {

class RecomputeCostBound {
 public:
  /// `boundary`: the last node of the forward phase. `kept`: the least that keeping a tensor until after it costs, in
  /// whatever form.
  RecomputeCostBound(const Problem& problem, const Shares& shares, NodeId boundary,
                     const std::function<Picoseconds(const Node& node)>& kept);

  /// Equal for tensors with the same costs; -1: not made in the forward phase.
  int kind_of(NodeId node) const { return kinds_[size_t(node)]; }
  /// Of a tensor that an operation makes in these forms, by the operation, what it reads included: those inputs that
  /// are not there otherwise are kept for it, or made again in turn. Of what several operations read the last one pays,
  /// so that nothing is counted twice. `forbidden` where it is not made in the forward phase.
  Picoseconds of(NodeId node, int form) const;

 private:
  std::vector<int> kinds_;                       ///< by node: in costs_
  std::vector<std::vector<Picoseconds>> costs_;  ///< by form
};

}  // namespace hetsynth::synth
