#include "synth/alternation/share_search.h"

#include <algorithm>
#include <utility>

#include "dsl/base/error.h"
#include "synth/support/parameters.h"

namespace hetsynth::synth {
namespace {

std::vector<int> unequal_axes_of(const Problem& problem) {
  std::vector<int> out;
  for (int axis = 0; axis < int(problem.mesh.axes.size()); ++axis)
    if (coordinate_types(problem, axis).devices.size() > 1) out.push_back(axis);
  return out;
}

}  // namespace

ShareSearch::ShareSearch(const Problem& problem, Budget& budget, const Relaxation& relaxation, Incumbent* kept)
    : problem_(problem),
      budget_(budget),
      relaxation_(relaxation),
      kept_(*kept),
      unequal_axes_(unequal_axes_of(problem)) {
  limits_.stop = budget.stop();
  if (!several_axes() || !small_network()) limits_ = limits_of(problem, budget.stop());
  if (several_axes()) limits_.cost_to_beat = kept_.to_beat();
}

Candidate ShareSearch::cheapest(const Conversions& conversions, const Shares& shares, Among among) {
  if (among == Among::relaxation) return cheapest_around_relaxation(conversions, shares);
  if (Candidate candidate = relaxation_at(conversions, shares); !candidate.empty())
    return candidate.cost <= candidate.bound ? candidate : at_least_as_cheap(std::move(candidate), conversions);
  if (of_likely()) return cheapest_of_likely(conversions, shares);
  // What is no faster than the best hardly leads to what is.
  if (several_axes()) limits_.cost_to_beat = kept_.cost_to_beat();
  return cheapest_of_all(conversions, shares);
}

Candidate ShareSearch::cheapest_of_all(const Conversions& conversions, const Shares& shares) {
  Solution solution =
      search(problem_, conversions, shares, {}, limits_, learnt_ ? learnt_.get() : relaxation_.learnt.get());
  if (solution.learnt) learnt_ = solution.learnt;
  budget_.searched(solution.search.expansions);
  if (kept_.best.shares == shares)
    kept_.best.bound = std::max(kept_.best.bound, std::min(kept_.best.cost, solution.search.lower_bound));
  HETSYNTH_CHECK(!solution.choices.empty() || budget_.spent() || several_axes() || problem_.constrained ||
                     limits_.cost_to_beat < forbidden,
                 "replicating everything is always a plan");
  if (solution.choices.empty()) return {};
  Candidate candidate = make_candidate(problem_, conversions, shares, std::move(solution.choices), solution.cost);
  candidate.bound = solution.search.lower_bound;
  return candidate;
}

Candidate ShareSearch::cheaper_than_best(const Conversions& conversions, const Shares& shares) {
  limits_.cost_to_beat = kept_.best.cost;
  limits_.guesses = several_axes();
  Candidate candidate = cheapest_of_all(conversions, shares);
  limits_.cost_to_beat = forbidden;
  limits_.guesses = true;
  return candidate;
}

Candidate ShareSearch::nearly_cheapest(const Conversions& conversions, const Shares& shares) {
  const double tolerance = std::exchange(limits_.tolerance, near_enough_before_memory);
  Candidate candidate = cheapest_of_all(conversions, shares);
  limits_.tolerance = tolerance;
  return candidate;
}

void ShareSearch::begin_with_likely() {
  if (several_axes() || !has_linear_program() || relaxation_.hard || relaxation_.around.values.empty()) return;
  likely_.values = relaxation_.around.values;
  likely_.values.resize(problem_.program.nodes.size());
}

bool ShareSearch::small_network() const {
  const auto& network = relaxation_.around.network;
  return network && network->network.value_count() <= few_values_to_prove;
}

/// What suits the shares of each instruction is changed a little to suit the shares there are.
Candidate ShareSearch::cheapest_around_relaxation(const Conversions& conversions, const Shares& shares) {
  Solution solution = search_among(problem_, conversions, shares, relaxation_.around, limits_);
  budget_.searched(solution.search.expansions);
  const Picoseconds cost = total_cost(problem_, conversions, shares, relaxation_.choices);
  if (solution.choices.empty() || solution.cost > cost) solution.choices = relaxation_.choices, solution.cost = cost;
  Candidate candidate = make_candidate(problem_, conversions, shares, std::move(solution.choices), solution.cost);
  candidate.bound = relaxation_.bound;
  return candidate;
}

/// Its program, if that costs hardly more at these shares, as it may where all devices are alike.
Candidate ShareSearch::relaxation_at(const Conversions& conversions, const Shares& shares) const {
  if (several_axes() || !unequal_axes_.empty() || relaxation_.choices.empty()) return {};
  const Picoseconds cost = total_cost(problem_, conversions, shares, relaxation_.choices);
  if (double(cost) > double(relaxation_.bound) * (1 + as_good_as_proven)) return {};
  Candidate candidate = make_candidate(problem_, conversions, shares, relaxation_.choices, cost);
  candidate.bound = relaxation_.bound;
  return candidate;
}

/// A plan that hardly any is cheaper than, or one that is.
Candidate ShareSearch::at_least_as_cheap(Candidate known, const Conversions& conversions) {
  kept_.keep(known);
  if (kept_.best.cost != known.cost || kept_.best.shares != known.shares) return known;
  Candidate cheaper = cheaper_than_best(conversions, known.shares);
  return cheaper.empty() ? kept_.best : cheaper;
}

/// Among the values that the relaxation called likely.
Candidate ShareSearch::cheapest_of_likely(const Conversions& conversions, const Shares& shares) {
  Solution solution = search_among(problem_, conversions, shares, likely_, limits_);
  budget_.searched(solution.search.expansions);
  if (solution.choices.empty()) return {};
  Candidate candidate = make_candidate(problem_, conversions, shares, std::move(solution.choices), solution.cost);
  candidate.bound = relaxation_.bound;
  return candidate;
}

}  // namespace hetsynth::synth
