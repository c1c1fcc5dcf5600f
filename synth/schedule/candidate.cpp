#include "synth/schedule/candidate.h"

#include <algorithm>
#include <utility>

#include "synth/schedule/lower.h"
#include "synth/schedule/memory_budget.h"
#include "synth/schedule/schedule.h"

namespace hetsynth::synth {

double Candidate::fullest() const { return fullness.empty() ? 0 : *std::max_element(fullness.begin(), fullness.end()); }

Candidate make_candidate(const Problem& problem, const Conversions& conversions, const Shares& shares, Choices choices,
                         Picoseconds cost) {
  Candidate candidate;
  candidate.shares = shares;
  candidate.cost = cost;
  candidate.spmd =
      problem.programs->keep(lower(problem, conversions, shares, choices, Wording::none, problem.programs->scrap()));
  candidate.choices = std::move(choices);
  measure_memory(problem, &candidate);
  return candidate;
}

Candidate candidate_at(const Problem& problem, const Shares& shares, Choices choices) {
  const Conversions conversions(*problem.analysis, problem.cost, shares);
  const Picoseconds cost = total_cost(problem, conversions, shares, choices);
  return make_candidate(problem, conversions, shares, std::move(choices), cost);
}

void measure_memory(const Problem& problem, Candidate* candidate) {
  candidate->fullness.clear();
  double fullest = 0;
  for (const MemoryPeak& peak : memory_peaks(problem, candidate->shares, *candidate->spmd)) {
    int64_t limit = memory_budget(problem, candidate->fullness.size());
    candidate->fullness.push_back(limit > 0 ? double(peak.bytes) / double(limit) : 0);
    if (candidate->fullness.back() > fullest) fullest = candidate->fullness.back(), candidate->peak = peak.node;
  }
}

bool better(const Candidate& a, const Candidate& b) {
  if (a.empty() || b.empty()) return !a.empty();
  if (a.fits() != b.fits()) return a.fits();
  return a.fits() ? a.cost < b.cost : a.fullest() < b.fullest();
}

}  // namespace hetsynth::synth
