// The planning problem as a weighted constraint network.
//
// Variables: the option of every operation; the form every parameter and state is kept in, equal at the start and the
// end of the step; and for every tensor with several consumers the SET of forms that are materialised. Costs: an
// operation's time; the cheapest conversion tree from the form a tensor is computed in to the set; a set that lacks
// what a consumer needs is forbidden. Every operation is computed in one way only, and every form of a tensor that
// exists at all exists from its first use to its last.
#pragma once
#include <functional>
#include <map>

#include "synth/model/problem.h"
#include "synth/network/memory_penalties.h"
#include "synth/wcsp/learnt_messages.h"
#include "synth/wcsp/network.h"

namespace hetsynth::synth {

struct SearchInput {
  const Pins* pins = nullptr;
  /// With a price, forms may be dropped after the forward phase and made again (ZeRO-3).
  MemoryPrice memory;
  /// Instead of the cost at the shares.
  std::function<Picoseconds(NodeId, const Option&)> operation_cost;
  /// Tensors get the same sets to choose from as there, so that values mean the same.
  const struct PlanNetwork* like = nullptr;
  /// By node, in rising order: of its values those that its variable has; others are not priced. Values of the network
  /// are then places in these lists. None: all.
  const ValueLists* among = nullptr;
};

/// The network of a problem, and what the values of its set variables stand for.
struct PlanNetwork {
  Network network;               ///< its first variables are the program's nodes, by number; sets of forms follow
  std::vector<NodeId> set_node;  ///< by set variable
  std::vector<const std::vector<FormSets>*> sets;  ///< by set variable: by value
  std::deque<std::vector<FormSets>> set_lists;     ///< what `sets` points to: one list per kind of tensor
};

/// The same in all networks of a problem that are among all values.
NamedValues named_values(const PlanNetwork& plan);

/// Tables of equal tensors are computed once.
PlanNetwork build_network(const Problem& problem, const Conversions& conversions, const Shares& shares,
                          const SearchInput& input);

/// The network at other costs than those of any shares, for bounds.
PlanNetwork build_network(const Problem& problem, std::function<Picoseconds(NodeId, const Option&)> operation,
                          const ConversionTable::Edge& conversion);

}  // namespace hetsynth::synth
