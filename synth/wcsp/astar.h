// A* over a weighted constraint network, in the reverse order of elimination, with f = g + the messages still to be
// answered for.
#pragma once
#include "synth/wcsp/elimination.h"

namespace hetsynth::synth {

struct SearchLimits {
  double direct_limit = 2e5;  ///< networks whose largest joint table is smaller are eliminated at once
  double table_limit = 1e7;   ///< entries of a joint table before it is split into mini-buckets
  int64_t expansion_limit = 2'000'000;
  bool momentum = false;          ///< of messages, where no variables look alike; worse on several axes
  int most_sweeps = 800;          ///< of message passing in one go; the whole takes up to a third more
  double tolerance = 0;           ///< relative gap between solution and bound that will do
  bool guesses = true;            ///< false: a good solution is known, and only what is better is looked for
  bool thorough = true;           ///< false: a good solution will do, the last of the gap may stay
  bool narrows_in_vain = true;    ///< false: message passing does not begin anew where hardly a value is left out
  Picoseconds constant_cost = 0;  ///< part of the cost that the network does not tell; gaps are relative to all
  Picoseconds cost_to_beat = forbidden;  ///< solutions that cost as much or more are not looked for
  StopToken stop;
};

struct SearchResult {
  std::vector<int> assignment;
  Picoseconds cost = forbidden;  ///< if there is no solution, or none was met before the search was stopped
  Picoseconds lower_bound = 0;   ///< proven; equal to `cost` if the search ended
  Picoseconds relaxation = 0;    ///< bound of message passing, 0 if it was not needed
  int64_t expansions = 0;
  int64_t variables = 0, values = 0,
          values_left = 0;  ///< values: after dead-end elimination; left: in the network A* ran on
  int64_t buckets_reused = 0;
  double largest_table = 0;
  bool found() const { return cost < forbidden; }
  bool optimal() const { return found() && cost == lower_bound; }
};

/// Eliminates in that order, then searches. If every table is exact, the first dive is the optimum: one expansion per
/// variable. `result` gains assignment, cost and bound of this network.
SearchResult eliminate_and_search(const Network& network, const EliminationOrder& order, const SearchLimits& limits);

}  // namespace hetsynth::synth
