// The exact search at fixed shares: the planning problem as a constraint network, solved by elimination and A*.
#pragma once
#include "synth/minimise.h"
#include "synth/plan_network.h"

namespace hetsynth::synth {

struct Solution {
  Choices choices;               ///< empty if pins or rules admit none, or the search was stopped before it met one
  Picoseconds cost = forbidden;  ///< time only
  SearchResult search;           ///< cost and bound include the price of memory
};

/// The relaxation of a problem (synth/mesh_bound.h), where its good solutions are found.
struct Neighbourhood {
  std::shared_ptr<const PlanNetwork> network;
  ValueLists values;  ///< by variable of the network; none: all
};

Solution search(const Problem& problem, const Conversions& conversions, const Shares& shares, const SearchInput& input,
                const SearchLimits& limits);

/// The cheapest of the choices in a neighbourhood. Its bound holds only there.
Solution search_among(const Problem& problem, const Conversions& conversions, const Shares& shares,
                      const Neighbourhood& where, const SearchLimits& limits);

}  // namespace hetsynth::synth
