// A* over a weighted constraint network, in the reverse order of elimination, with f = g + the messages still to be
// answered for.
#pragma once
#include <functional>

#include "synth/elimination.h"

namespace hetsynth::synth {

struct SearchLimits {
  double table_limit = 3e7;  ///< entries of a joint table before it is split into mini-buckets
  int64_t expansion_limit = 2'000'000;
  std::function<bool()> keep_going;  ///< asked now and then; empty: yes
};

struct SearchResult {
  std::vector<int> assignment;  ///< empty if there is no solution
  Picoseconds cost = forbidden;
  Picoseconds lower_bound = 0;  ///< proven; equal to `cost` if the search ended
  int64_t expansions = 0;
  int64_t variables = 0, values_left = 0;  ///< values left by dead-end elimination
  int64_t buckets_reused = 0;
  double largest_table = 0;
  bool optimal() const { return !assignment.empty() && cost == lower_bound; }
};

/// The cheapest assignment. The heuristic never overestimates; it is perfect, and A* expands one state per variable,
/// when no table exceeds the limit. When stopped early: the best assignment met and the proven bound.
SearchResult minimise(const Network& network, const SearchLimits& limits = {});

}  // namespace hetsynth::synth
