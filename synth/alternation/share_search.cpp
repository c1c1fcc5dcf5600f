#include "synth/alternation/share_search.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "dsl/base/error.h"

namespace hetsynth::synth {
namespace {

/// Networks with no more values are searched to the end, also on several axes.
constexpr int64_t few_values = 60'000;
/// Of all values, where a search of everything tells which are likely to be good at other shares.
constexpr double likely_part = 0.25;
/// Of a plan to the bound over all shares, for the search to begin with it.
constexpr double hardly_dearer = 1e-6;
/// Of a plan that does not fit, to the cheapest.
constexpr double near_enough = 2.5e-3;

std::vector<int> unequal_axes_of(const Problem& problem) {
  std::vector<int> out;
  for (int axis = 0; axis < int(problem.mesh.axes.size()); ++axis)
    if (coordinate_types(problem, axis).devices.size() > 1) out.push_back(axis);
  return out;
}

}  // namespace

ShareSearch::ShareSearch(const Problem& problem, Budget& budget, const Relaxation& relaxation, KeptPlans* kept)
    : problem_(problem),
      budget_(budget),
      relaxation_(relaxation),
      kept_(*kept),
      unequal_axes_(unequal_axes_of(problem)) {
  limits_.stop = budget.stop();
  if (!several_axes() || !small_network()) limits_ = limits_of(problem, budget.stop());
  if (several_axes()) limits_.cost_to_beat = kept_.to_beat();
}

Candidate ShareSearch::cheapest(const Conversions& conversions, const Shares& shares, Among among, Picoseconds last) {
  if (among == Among::relaxation) return cheapest_around_relaxation(conversions, shares);
  if (Candidate candidate = relaxation_at(conversions, shares); !candidate.empty())
    return candidate.cost <= candidate.bound ? candidate : at_least_as_cheap(std::move(candidate), conversions);
  if (of_likely()) return cheapest_of_likely(conversions, shares, last);
  // What is no faster than the best hardly leads to what is.
  if (several_axes()) limits_.cost_to_beat = kept_.cost_to_beat();
  return cheapest_of_all(conversions, shares, last);
}

Candidate ShareSearch::cheapest_of_all(const Conversions& conversions, const Shares& shares, Picoseconds last) {
  Solution solution = search(problem_, conversions, shares, {}, limits_, learns() ? likely_part : 0,
                             learnt_ ? learnt_.get() : relaxation_.learnt.get());
  if (solution.learnt) learnt_ = solution.learnt;
  budget_.searched(solution.search.expansions);
  if (learns()) remember_likely(solution);
  if (kept_.best.shares == shares)
    kept_.best.bound = std::max(kept_.best.bound, std::min(kept_.best.cost, solution.search.lower_bound));
  HETSYNTH_CHECK(!solution.choices.empty() || budget_.spent() || several_axes() || problem_.constrained ||
                     limits_.cost_to_beat < forbidden,
                 "replicating everything is always a plan");
  if (solution.choices.empty() || idle(conversions, solution, last)) return {};
  Candidate candidate = make_candidate(problem_, conversions, shares, std::move(solution.choices), solution.cost);
  candidate.bound = solution.search.lower_bound;
  return candidate;
}

Candidate ShareSearch::cheaper_than_best(const Conversions& conversions, const Shares& shares) {
  limits_.cost_to_beat = kept_.best.cost;
  limits_.guesses = several_axes();
  Candidate candidate = cheapest_of_all(conversions, shares, kept_.best.cost);
  limits_.cost_to_beat = forbidden;
  limits_.guesses = true;
  return candidate;
}

Candidate ShareSearch::nearly_cheapest(const Conversions& conversions, const Shares& shares) {
  const double tolerance = std::exchange(limits_.tolerance, near_enough);
  Candidate candidate = cheapest_of_all(conversions, shares);
  limits_.tolerance = tolerance;
  return candidate;
}

void ShareSearch::begin_with_likely() {
  if (!learns() || relaxation_.around.values.empty()) return;
  likely_.values = relaxation_.around.values;
  likely_.values.resize(problem_.program.nodes.size());
}

bool ShareSearch::only_around_relaxation() const {
  return !several_axes() && !relaxation_.choices.empty() && relaxation_.hard;
}

bool ShareSearch::small_network() const {
  const auto& network = relaxation_.around.network;
  return network && network->network.value_count() <= few_values;
}

/// A program and how it is realised: all that the shares which suit it follow from.
std::vector<int> ShareSearch::realised(const std::vector<CostTerm>& terms, const Choices& choices) {
  std::vector<int> out = choices.of;
  for (const CostTerm& term : terms)
    if (!term.is_operator) out.insert(out.end(), {term.node, int(term.opcode), int(term.realisation), int(term.count)});
  return out;
}

/// Nothing is to be learnt of what was found: it is no faster than the best, and the same program was met at other
/// shares, those that suit it included, or it is no better than what led to its shares.
bool ShareSearch::idle(const Conversions& conversions, const Solution& found, Picoseconds last) const {
  if (last == never_idle || several_axes() || kept_.wants_runners_up() || !kept_.fits() || found.cost < kept_.best.cost)
    return false;
  return found.cost >= last ||
         programs_.contains(realised(cost_terms(problem_, conversions, found.choices), found.choices));
}

/// Which values are likely to be good at other shares.
bool ShareSearch::learns() const {
  return !several_axes() && has_linear_program() && !relaxation_.hard && is_long(problem_.program);
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
  if (double(cost) > double(relaxation_.bound) * (1 + hardly_dearer)) return {};
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

/// Among the values that the relaxation or a search of everything at other shares called likely.
Candidate ShareSearch::cheapest_of_likely(const Conversions& conversions, const Shares& shares, Picoseconds last) {
  Solution solution = search_among(problem_, conversions, shares, likely_, limits_);
  budget_.searched(solution.search.expansions);
  if (solution.choices.empty() || idle(conversions, solution, last)) return {};
  Candidate candidate = make_candidate(problem_, conversions, shares, std::move(solution.choices), solution.cost);
  candidate.bound = relaxation_.bound;
  return candidate;
}

void ShareSearch::remember_likely(const Solution& found) {
  ValueLists& values = likely_.values;
  if (found.likely.empty() || found.choices.empty()) return;
  const auto add = [&](size_t node, const std::vector<int>& more) {
    std::vector<int> both;
    std::ranges::set_union(values[node], more, std::back_inserter(both));
    values[node] = std::move(both);
  };
  const bool first = values.empty();
  values.resize(found.likely.size());
  for (size_t n = 0; n < values.size(); ++n) {
    if (first && !relaxation_.around.values.empty()) add(n, relaxation_.around.values[n]);
    add(n, found.likely[n]);
    add(n, {found.choices.of[n]});
  }
}

}  // namespace hetsynth::synth
