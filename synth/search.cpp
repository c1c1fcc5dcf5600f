#include "synth/search.h"

#include <algorithm>

#include "dsl/base/error.h"

namespace hetsynth::synth {

Solution search(const Problem& problem, const Conversions& conversions, const Shares& shares, const SearchInput& input,
                const SearchLimits& limits) {
  SearchInput pinned = input;
  if (!pinned.pins) pinned.pins = &problem.pins;
  PlanNetwork plan = build_network(problem, conversions, shares, pinned);
  Solution solution;
  solution.search = minimise(plan.network, limits);
  if (!solution.search.found()) return solution;
  const auto& assignment = solution.search.assignment;
  size_t nodes = problem.program.nodes.size();
  solution.choices.of.assign(assignment.begin(), assignment.begin() + nodes);
  if (input.memory.any()) {
    solution.choices.sets.resize(nodes);
    for (size_t s = 0; s < plan.sets.size(); ++s)
      solution.choices.sets[plan.set_node[s]] = (*plan.sets[s])[assignment[nodes + s]];
  }
  solution.cost = total_cost(problem, conversions, shares, solution.choices);
  if (input.memory.any()) return solution;
  // Sets of forms are chosen anew for what consumers really need: of what is no optimum they may be cheaper.
  HETSYNTH_CHECK(
      solution.cost == solution.search.cost || (solution.cost < solution.search.cost && !solution.search.optimal()),
      "the network and the cost model disagree on a plan");
  solution.search.cost = solution.cost;
  solution.search.lower_bound = std::min(solution.search.lower_bound, solution.cost);
  return solution;
}

Solution search_among(const Problem& problem, const Conversions& conversions, const Shares& shares,
                      const Neighbourhood& where, const SearchLimits& limits) {
  SearchInput input;
  input.pins = &problem.pins;
  input.like = where.network.get();
  const PlanNetwork plan = build_network(problem, conversions, shares, input);
  Solution solution;
  solution.search =
      where.values.empty() ? minimise(plan.network, limits) : minimise(restrict(plan.network, where.values), limits);
  if (!solution.search.found()) return solution;
  for (size_t n = 0; n < problem.program.nodes.size(); ++n) {
    const int value = solution.search.assignment[n];
    solution.choices.of.push_back(where.values.empty() ? value : where.values[n][size_t(value)]);
  }
  solution.cost = total_cost(problem, conversions, shares, solution.choices);
  return solution;
}

}  // namespace hetsynth::synth
