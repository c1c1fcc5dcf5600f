#include "synth/alternation/fastest_plan.h"

#include <utility>

#include "synth/schedule/lower.h"
#include "synth/shares/start_shares.h"
#include "synth/support/parameters.h"

namespace hetsynth::synth {
Shares relaxed_shares(const Problem& problem, const ShareSearch& search, const Relaxation& relaxation,
                      const MemoryLimits& limits) {
  if (!search.has_linear_program() || relaxation.choices.empty() || relaxation.hard) return {};
  Shares shares = common_shares(problem.classes, axis_fractions(problem, device_speeds(problem)));
  const Conversions conversions(*problem.analysis, problem.cost, shares);
  const std::vector<CostTerm> terms = cost_terms(problem, conversions, relaxation.choices);
  const SpmdProgram relaxed = lower(problem, conversions, shares, relaxation.choices, Wording::none);
  if (!refine_shares(problem, terms, relaxed, search.unequal_axes(), &shares, limits)) return {};
  return shares;
}

Candidate relaxed_program(const Problem& problem, const ShareSearch& search, const Relaxation& relaxation,
                          const MemoryLimits& limits) {
  const Shares shares = relaxed_shares(problem, search, relaxation, limits);
  if (shares.empty()) return {};
  return candidate_at(problem, shares, relaxation.choices);
}

Candidate fastest_from(const Problem& problem, Shares shares, const MemoryLimits& limits, ShareSearch* search,
                       Budget& budget) {
  Candidate fastest;
  for (int round = 0; round < most_alternations && !budget.spent(); ++round) {
    const Conversions conversions(*problem.analysis, problem.cost, shares);
    Candidate candidate = search->cheapest(conversions, shares);
    if (candidate.empty() || (!fastest.empty() && candidate.cost >= fastest.cost)) break;
    fastest = std::move(candidate);
    const std::vector<CostTerm> terms = cost_terms(problem, conversions, fastest.choices);
    if (!refine_shares(problem, terms, *fastest.spmd, search->unequal_axes(), &shares, limits) ||
        shares == fastest.shares)
      break;
  }
  return fastest;
}

}  // namespace hetsynth::synth
