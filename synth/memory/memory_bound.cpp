#include "synth/memory/memory_bound.h"

#include <algorithm>

#include "synth/wcsp/solve_wcsp.h"

namespace hetsynth::synth {
namespace {

/// Sweeps of message passing after which a bound's gains tell how far it may get, and how often the last gain is still
/// to come at most: gains shrink.
constexpr int sweeps_at_once = 9;
constexpr double most_gains = 4;

}  // namespace

Picoseconds MemoryBound::at(const SearchInput& input, double price, double worth) {
  if (limited_to(worth, input, price)) return 0;
  const PlanNetwork plan = build_network(problem_, conversions_, shares_, input);
  const SearchResult found = bounded(plan.network, worth + price);
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

/// A bound for what the network's solutions cost.
SearchResult MemoryBound::bounded(const Network& network, double worth) const {
  Minimisation minimisation(network, limits_);
  SearchResult out;
  const Picoseconds before = minimisation.bound_after(sweeps_at_once);
  out.lower_bound = minimisation.bound_after(sweeps_at_once);
  if (double(out.lower_bound) + most_gains * double(out.lower_bound - before) < worth) return out;
  return minimisation.finish(forbidden);
}

}  // namespace hetsynth::synth
