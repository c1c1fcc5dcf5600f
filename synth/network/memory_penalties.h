// What forms of tensors cost where memory has a price.
#pragma once
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "synth/model/conversion.h"
#include "synth/model/problem.h"
#include "synth/network/recompute_cost_bound.h"

namespace hetsynth::synth {

/// A price on memory, on top of time (a Lagrangian multiplier): of leaves, and of other tensors that are there at
/// certain points of the program.
struct MemoryPrice {
  struct Point {
    NodeId node;                    ///< the moment in which it is computed; -1: none has begun
    std::vector<double> by_device;  ///< picoseconds per byte that is there then
  };
  std::vector<double> by_device;  ///< picoseconds per byte that is there all the time; empty: no price
  std::vector<Point> points;      ///< at most 31, whose prices add up to `by_device`
  /// For a bound: only what is there for certain between the forward phase and the rest is paid for, so that no
  /// solution pays more than what its memory costs. (Else: all forms that a tensor is given, a closer guess.) Points do
  /// not matter then.
  bool least = false;
  /// For a bound of plans that make values twice as well: then nothing pays more than it takes to make it again.
  bool again = false;
  bool any() const { return !by_device.empty(); }
};

class MemoryPenalties {
 public:
  MemoryPenalties(const Problem& problem, const Conversions& conversions, const Shares& shares,
                  const MemoryPrice& memory);

  /// Without a price all else is 0.
  bool any() const { return memory_.any(); }
  /// Equal for tensors of one kind that pay alike.
  int kind_of(const Node& node) const { return any() ? 2 * presence(node) + stays_through_a_loop(node) : 0; }
  /// What is made before a loop and read in it is converted before the loop, and kept through all turns.
  bool stays_through_a_loop(const Node& node) const;
  /// Equal for tensors that cost the same to make again.
  int remake_kind_of(const Node& node) const { return remakes_ ? remakes_->kind_of(node.id) : -1; }
  /// Of a leaf in the form it is kept in. Inputs are read in the cut that their consumers need.
  Picoseconds of_leaf(const Node& node, int form) const;
  /// Of what there is of a tensor at the points, made in the forms `source`; a leaf's own form is priced at the leaf.
  Picoseconds of_kept(const Node& node, int source, const FormSets& sets) const;

 private:
  void find_boundary();
  void find_loops();
  bool reads_in_all_turns(NodeId consumer, const Node& node) const;
  std::pair<NodeId, NodeId> lifetime(const Node& node) const;
  int presence(const Node& node) const;
  int find_presence(const Node& node) const;
  Picoseconds price(const Node& node, int form) const;
  std::vector<double> prices_at(int points) const;
  const std::vector<double>& prices_of_forms(const Node& node, int points) const;
  Picoseconds least_of_kept(const Node& node, int source, const FormSets& sets) const;
  Picoseconds least_with_copies(const Node& node, int source, const FormSets& sets) const;

  const Problem& problem_;
  const Conversions& conversions_;
  const Shares& shares_;
  const MemoryPrice& memory_;
  NodeId boundary_ = -1;                               ///< the last node of the forward phase
  std::vector<std::pair<NodeId, NodeId>> loops_ = {};  ///< by loop: its first and its last node
  mutable std::map<std::pair<int, int>, std::vector<double>>
      prices_;  ///< by kind and points: worked out when first asked for
  // Of the node that was asked for last, which many questions in a row are about.
  mutable NodeId asked_ = -1;
  mutable int presence_ = 0;
  mutable const std::vector<double>* of_forms_ = nullptr;  ///< once its price was asked for
  std::optional<RecomputeCostBound> remakes_;
};

/// What all tensors pay under the choices, as a network counts it: what nothing reads is not among its choices.
Picoseconds paid_for_memory(const Problem& problem, const Conversions& conversions, const Shares& shares,
                            const MemoryPrice& memory, const Choices& choices);

}  // namespace hetsynth::synth
