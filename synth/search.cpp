#include "synth/search.h"

#include "dsl/base/error.h"

namespace hetsynth::synth {

Solution search(const Problem& problem, const Conversions& conversions, const Shares& shares, const SearchInput& input,
                const SearchLimits& limits) {
  PlanNetwork plan = build_network(problem, conversions, shares, input);
  Solution solution;
  solution.search = minimise(plan.network, limits);
  if (!solution.search.found()) return solution;
  const auto& assignment = solution.search.assignment;
  size_t nodes = problem.program.nodes.size();
  solution.choices.of.assign(assignment.begin(), assignment.begin() + nodes);
  if (!input.memory_price.empty()) {
    solution.choices.sets.resize(nodes);
    for (size_t s = 0; s < plan.sets.size(); ++s)
      solution.choices.sets[plan.set_node[s]] = (*plan.sets[s])[assignment[nodes + s]];
  }
  solution.cost = total_cost(problem, conversions, shares, solution.choices);
  HETSYNTH_CHECK(!input.memory_price.empty() || solution.cost == solution.search.cost,
                 "the network and the cost model disagree on a plan");
  return solution;
}

}  // namespace hetsynth::synth
