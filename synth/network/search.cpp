#include "synth/network/search.h"

#include <algorithm>

#include "dsl/base/error.h"
#include "synth/support/parameters.h"

namespace hetsynth::synth {
SearchLimits limits_of(const Problem& problem, const StopToken& stop, double tolerance) {
  SearchLimits limits;
  limits.stop = stop;
  limits.tolerance = tolerance;
  const bool several_axes = problem.mesh.axes.size() > 1;
  limits.momentum = !several_axes;
  const int by_length = int(sweeps_by_node / double(problem.program.nodes.size()));
  limits.most_sweeps = several_axes ? sweeps_of_several_axes : std::clamp(by_length, least_sweeps, limits.most_sweeps);
  limits.table_limit = limits.direct_limit;
  limits.expansion_limit = 1;
  return limits;
}

SearchLimits limits_at_prices(const Problem& problem, const StopToken& stop) {
  SearchLimits limits = limits_of(problem, stop, tolerance_at_prices);
  limits.most_sweeps = sweeps_at_prices;
  limits.thorough = false;
  return limits;
}

Picoseconds cutoff_for_tolerance(Picoseconds enough, double tolerance) {
  return enough < forbidden ? Picoseconds(double(enough) * (1 + 2 * tolerance)) + 1 : enough;
}

Solution search(const Problem& problem, const Conversions& conversions, const Shares& shares, const SearchInput& input,
                const SearchLimits& limits, const LearntMessages* known) {
  HETSYNTH_CHECK(!input.among, "of likely values only search_among tells which");
  SearchInput pinned = input;
  if (!pinned.pins) pinned.pins = &problem.pins;
  PlanNetwork plan = build_network(problem, conversions, shares, pinned);
  Solution solution;
  const bool one_axis = problem.mesh.axes.size() < 2, tells = one_axis && !input.memory.any();
  if (!one_axis) known = nullptr;
  const NamedValues names = tells || known ? named_values(plan) : NamedValues{};
  Minimisation minimisation(plan.network, limits, known, names);
  solution.search = minimisation.finish(limits.cost_to_beat);
  if (tells) solution.learnt = minimisation.learnt(names);
  if (!solution.search.found()) return solution;
  const std::vector<int>& assignment = solution.search.assignment;
  solution.choices =
      input.memory.any() ? choices_with_sets(problem, plan, assignment) : choices_of(problem, assignment);
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

Choices choices_of(const Problem& problem, const std::vector<int>& assignment) {
  Choices out;
  out.of.assign(assignment.begin(), assignment.begin() + ptrdiff_t(problem.program.nodes.size()));
  return out;
}

Choices choices_with_sets(const Problem& problem, const PlanNetwork& plan, const std::vector<int>& assignment) {
  const size_t nodes = problem.program.nodes.size();
  Choices out = choices_of(problem, assignment);
  out.sets.resize(nodes);
  for (size_t s = 0; s < plan.sets.size(); ++s)
    out.sets[size_t(plan.set_node[s])] = (*plan.sets[s])[size_t(assignment[nodes + s])];
  return out;
}

Solution search_among(const Problem& problem, const Conversions& conversions, const Shares& shares,
                      const Neighbourhood& where, const SearchLimits& limits) {
  SearchInput input;
  input.pins = &problem.pins;
  input.like = where.network.get();
  if (!where.network && !where.values.empty()) input.among = &where.values;
  const PlanNetwork plan = build_network(problem, conversions, shares, input);
  const bool restricts = where.network && !where.values.empty();
  Solution solution;
  solution.search =
      restricts ? solve_wcsp(restrict(plan.network, where.values), limits) : solve_wcsp(plan.network, limits);
  if (!solution.search.found()) return solution;
  for (size_t n = 0; n < problem.program.nodes.size(); ++n) {
    const int value = solution.search.assignment[n];
    solution.choices.of.push_back(where.values.empty() ? value : where.values[n][size_t(value)]);
  }
  solution.cost = total_cost(problem, conversions, shares, solution.choices);
  return solution;
}

Relaxation relaxation_of(const Problem& problem, std::shared_ptr<const PlanNetwork> network, const SearchResult& found,
                         ValueLists likely) {
  Relaxation out;
  out.bound = found.lower_bound;
  out.expansions = found.expansions;
  if (!found.found()) return out;
  out.choices = choices_of(problem, found.assignment);
  out.around = {std::move(network), std::move(likely)};
  out.hard = double(found.cost) > double(found.lower_bound) * (1 + nearly_proven);
  return out;
}

}  // namespace hetsynth::synth
