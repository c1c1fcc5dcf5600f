// The exact search: the planning problem as a weighted constraint network, solved by elimination and A*.
//
// Variables: the option of every operation; the form every parameter and state is kept in, equal at the start and the
// end of the step; and for every tensor with several consumers the SET of forms that are materialised. Costs: an
// operation's time; the cheapest conversion tree from the form a tensor is computed in to the set; a set that lacks
// what a consumer needs is forbidden. Every operation is computed in one way only, and every form of a tensor that
// exists at all exists from its first use to its last.
#pragma once
#include <map>
#include <optional>

#include "synth/astar.h"
#include "synth/problem.h"

namespace hetsynth::synth {

/// Choices that a node is held to; a node without an entry is free.
using Pins = std::map<NodeId, std::vector<int>>;

struct SearchInput {
  const Pins* pins = nullptr;
  /// Picoseconds per byte and device that a kept or saved tensor costs, on top of time (a Lagrangian multiplier of
  /// memory); empty: none.
  std::vector<double> memory_price;
};

struct Solution {
  Choices choices;               ///< empty if pins or rules admit none
  Picoseconds cost = forbidden;  ///< time only
  SearchResult search;
};

/// The network of a problem. Its first variables are the program's nodes, by number; sets of forms follow.
Network build_network(const Problem& problem, const Conversions& conversions, const Shares& shares,
                      const SearchInput& input);

Solution search(const Problem& problem, const Conversions& conversions, const Shares& shares, const SearchInput& input,
                const SearchLimits& limits);

}  // namespace hetsynth::synth
