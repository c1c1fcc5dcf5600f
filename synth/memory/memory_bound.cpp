#include "synth/memory/memory_bound.h"

#include <algorithm>

#include "synth/wcsp/solve_wcsp.h"

namespace hetsynth::synth {

Picoseconds MemoryBound::at(const SearchInput& input, double price, double worth) {
  if (limited_to(worth, input, price)) return 0;
  const PlanNetwork plan = build_network(problem_, conversions_, shares_, input);
  const SearchResult found = Minimisation(plan.network, limits_).finish(forbidden);
  budget_.searched(found.expansions);
  if (found.found()) limit_by(choices_with_sets(problem_, plan, found.assignment));
  return found.lower_bound < forbidden ? std::max<Picoseconds>(0, found.lower_bound - Picoseconds(price)) : 0;
}

bool MemoryBound::limited_to(double worth, const SearchInput& input, double price) const {
  return std::ranges::any_of(solutions_, [&](const Choices& choices) {
    const Picoseconds time = total_cost(problem_, conversions_, shares_, choices);
    return double(time) + double(paid_for_memory(problem_, conversions_, shares_, input.memory, choices)) - price <=
           worth;
  });
}

}  // namespace hetsynth::synth
