// A* over a weighted constraint network, in the reverse order of elimination, with f = g + the messages still to be
// answered for.
#pragma once
#include <functional>

#include "synth/elimination.h"

namespace hetsynth::synth {

struct SearchLimits {
  double direct_limit = 2e4;  ///< networks whose largest joint table is smaller are eliminated as they stand
  double table_limit = 1e7;   ///< entries of a joint table before it is split into mini-buckets
  int64_t expansion_limit = 2'000'000;
  std::function<bool()> keep_going;  ///< asked now and then; empty: yes
};

struct SearchResult {
  std::vector<int> assignment;  ///< empty if there is no solution
  Picoseconds cost = forbidden;
  Picoseconds lower_bound = 0;  ///< proven; equal to `cost` if the search ended
  Picoseconds relaxation = 0;   ///< bound of message passing, 0 if it was not needed
  int64_t expansions = 0;
  int64_t variables = 0, values = 0,
          values_left = 0;  ///< values: after dead-end elimination; left: in the network A* ran on
  int64_t buckets_reused = 0;
  double largest_table = 0;
  bool optimal() const { return !assignment.empty() && cost == lower_bound; }
};

/// The cheapest assignment, proven:
/// 1. dead-end elimination;
/// 2. where joint tables would grow too large: message passing for a bound L; only values that can be part of a
/// solution below L + tau are kept, and
///    tau grows until the best of those costs at most L + tau, which proves it;
/// 3. bucket elimination and A*. The heuristic never overestimates; it is perfect, and A* expands one state per
/// variable, unless a table still exceeds the
///    limit.
/// When stopped early: the best assignment met and the proven bound.
SearchResult minimise(const Network& network, const SearchLimits& limits = {});

}  // namespace hetsynth::synth
