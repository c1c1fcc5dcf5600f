// The exact search at fixed shares: the planning problem as a constraint network, solved by elimination and A*.
#pragma once
#include "synth/network/plan_network.h"
#include "synth/wcsp/solve_wcsp.h"

namespace hetsynth::synth {

/// Message passing is cut off after a while, the sooner the longer a program is and the more axes the mesh has, and
/// what is too large for elimination then is left: the last per mille would take as long as everything before.
SearchLimits limits_of(const Problem& problem, const StopToken& stop, double tolerance = 0);
/// Limits of searches in which memory has a price: there are many of them, and a good solution to each will do.
SearchLimits limits_at_prices(const Problem& problem, const StopToken& stop);

/// The cost to beat with which a search to a tolerance tells bounds below `enough` exactly: it ends where the bound is
/// within the tolerance, which must not be below what is enough.
Picoseconds cutoff_for_tolerance(Picoseconds enough, double tolerance);

struct Solution {
  Choices choices;               ///< empty if pins or rules admit none, or the search was stopped before it met one
  Picoseconds cost = forbidden;  ///< time only
  SearchResult search;           ///< cost and bound include the price of memory
  std::shared_ptr<const LearntMessages> learnt{};  ///< on one axis; none: not known
};

/// The relaxation of a problem (synth/bounds/mesh_bound.h), where its good solutions are found.
struct Neighbourhood {
  std::shared_ptr<const PlanNetwork> network;  ///< none: tensors get any sets of forms
  ValueLists values;                           ///< by variable of the network, without one by node; none: all
};

/// What is known of all plans of a mesh, at any shares.
struct Relaxation {
  Picoseconds bound = 0;  ///< none is faster
  Choices choices;        ///< cost no more than that at the shares that suit each instruction; empty: not known
  Neighbourhood around{};
  std::shared_ptr<const LearntMessages> learnt{};  ///< by message passing, on one axis; none: there was no need
  bool hard = false;                               ///< the choices are not proven to be the best, or nearly so
  int64_t expansions = 0;
};

/// `known`: what was learnt in another network of the problem, or none.
Solution search(const Problem& problem, const Conversions& conversions, const Shares& shares, const SearchInput& input,
                const SearchLimits& limits, const LearntMessages* known = nullptr);

/// What an assignment of a problem's network stands for; sets of forms are left open.
Choices choices_of(const Problem& problem, const std::vector<int>& assignment);
/// The same with the sets that it gives to tensors.
Choices choices_with_sets(const Problem& problem, const PlanNetwork& plan, const std::vector<int>& assignment);

/// The cheapest of the choices in a neighbourhood. Its bound holds only there.
Solution search_among(const Problem& problem, const Conversions& conversions, const Shares& shares,
                      const Neighbourhood& where, const SearchLimits& limits);

/// The relaxation of a network that has been searched.
Relaxation relaxation_of(const Problem& problem, std::shared_ptr<const PlanNetwork> network, const SearchResult& found,
                         ValueLists likely);

}  // namespace hetsynth::synth
