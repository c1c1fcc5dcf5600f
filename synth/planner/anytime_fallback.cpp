#include "synth/planner/anytime_fallback.h"

#include <set>

#include "synth/baselines/baselines.h"
#include "synth/shares/ratios.h"
#include "synth/support/parameters.h"

namespace hetsynth::synth {
namespace {

Pins data_parallel_operations(const Problem& problem) {
  const Choices choices = data_parallel_choices(problem);
  Pins pins;
  for (const Node& node : problem.program.nodes)
    if (!node.leaf() && node.phase != Phase::update) pins[node.id] = {choices[node.id]};
  return pins;
}

Pins batch_or_parameters(const Problem& problem) {
  std::set<int> classes{batch_class(problem)};
  for (const Node& node : problem.program.nodes)
    if (node.kind == NodeKind::parameter)
      classes.insert(problem.classes.dims[node.id].begin(), problem.classes.dims[node.id].end());
  classes.erase(-1);
  Pins pins;
  for (const Node& node : problem.program.nodes) {
    if (node.leaf()) continue;
    const auto& options = problem.rules.options[node.id];
    std::vector<int> allowed;
    for (int i = 0; i < int(options.size()); ++i) {
      const int factor = options[i].factor[0];
      if (factor < 0 || classes.count(problem.classes.factors[node.id][size_t(factor)])) allowed.push_back(i);
    }
    if (allowed.size() < options.size()) pins[node.id] = std::move(allowed);
  }
  return pins;
}

}  // namespace

std::vector<Pins> quick_restrictions(const Problem& problem) {
  return {data_parallel_operations(problem), batch_or_parameters(problem)};
}

Candidate anytime_fallback(const Problem& problem, Budget& budget) {
  Candidate best;
  if (problem.mesh.axes.size() > 1 || problem.constrained || !budget.limited()) return best;
  const SearchLimits limits = limits_of(problem, budget.stop(), fallback_tolerance);
  const bool alike = device_types(problem.cluster).devices.size() < 2;
  Shares shares = common_shares(problem.classes, fractions_of(problem, RatioRule::proportional));
  for (const Pins& pins : quick_restrictions(problem)) {
    SearchInput input;
    input.pins = &pins;
    std::set<Shares> seen;
    for (int round = 0; round < fallback_alternations && !budget.spent() && seen.insert(shares).second; ++round) {
      const Conversions conversions(*problem.analysis, problem.cost, shares);
      Solution solution = search(problem, conversions, shares, input, limits);
      if (solution.choices.empty()) break;
      Candidate made = make_candidate(problem, conversions, shares, std::move(solution.choices), solution.cost);
      if (!better(made, best)) break;
      best = std::move(made);
      if (best.fits()) budget.found(to_seconds(best.cost), 0);
      const std::vector<CostTerm> terms = cost_terms(problem, conversions, best.choices);
      if (alike || !refine_shares(problem, terms, *best.spmd, {0}, &shares)) break;
    }
  }
  return best;
}

}  // namespace hetsynth::synth
