#include "synth/minimise.h"

#include <algorithm>

#include "dsl/base/error.h"
#include "synth/dead_ends.h"
#include "synth/reparametrise.h"

namespace hetsynth::synth {
namespace {

/// A network over some values of another, with the way back.
struct Part {
  Network network;
  ValueLists values;        ///< of the other network, by variable
  bool impossible = false;  ///< some variable has no value left

  static Part of(const Network& whole, ValueLists values) {
    Part part;
    part.impossible = std::any_of(values.begin(), values.end(), [](auto& v) { return v.empty(); });
    if (!part.impossible) part.network = restrict(whole, values);
    part.values = std::move(values);
    return part;
  }
  std::vector<int> original(std::vector<int> assignment) const {
    for (size_t v = 0; v < assignment.size(); ++v) assignment[v] = values[v][assignment[v]];
    return assignment;
  }
  int64_t value_count() const {
    int64_t count = 0;
    for (const auto& v : values) count += int64_t(v.size());
    return count;
  }
};

/// Step 2 of `minimise`.
class BoundedSearch {
 public:
  BoundedSearch(const Network& network, const SearchLimits& limits)
      : limits_(limits), shifted_(reparametrise(network, limits.stop)) {
    result_.relaxation = result_.lower_bound = shifted_.bound;
    if (shifted_.decoded.empty()) return;
    result_.assignment = shifted_.decoded;
    result_.cost = network.cost(shifted_.decoded);
  }

  SearchResult run() {
    Picoseconds tau = std::max<Picoseconds>(1, shifted_.bound / 10'000'000);
    while (result_.cost > result_.lower_bound && !limits_.stop.stopped()) {
      Picoseconds gap = result_.cost - shifted_.bound;  // with this budget nothing better is left out
      bool complete = tau >= gap;
      if (!attempt(complete ? gap : tau, complete)) break;
      tau = tau > forbidden / 16 ? forbidden : tau * 16;
    }
    return result_;
  }

 private:
  /// Looks for solutions below the bound plus `budget`. False: the tables are too large or the search was stopped,
  /// nothing more can be proven.
  bool attempt(Picoseconds budget, bool complete) {
    Part within = Part::of(shifted_.network, values_within(shifted_.network, budget));
    if (within.impossible) return prove(budget);
    Part part = Part::of(within.network, undominated_values(within.network));
    if (part.impossible) return prove(budget);
    EliminationOrder order = elimination_order(part.network);
    if (!complete && order.largest > limits_.table_limit) {
      Picoseconds gap = result_.cost - shifted_.bound;
      return attempt(gap, true) && false;
    }
    SearchResult found = eliminate_and_search(part.network, order, limits_);
    result_.expansions += found.expansions;
    result_.buckets_reused += found.buckets_reused;
    result_.largest_table = std::max(result_.largest_table, found.largest_table);
    result_.values_left = part.value_count();
    if (found.cost < forbidden && add(shifted_.bound, found.cost) < result_.cost) {
      result_.cost = shifted_.bound + found.cost;
      result_.assignment = within.original(part.original(found.assignment));
    }
    return prove(std::min(budget, found.lower_bound)) &&
           (found.lower_bound >= budget || found.cost == found.lower_bound);
  }

  /// Nothing is cheaper than the bound of message passing plus `excess`, except perhaps what was found.
  bool prove(Picoseconds excess) {
    Picoseconds bound = std::min(result_.cost, add(shifted_.bound, excess));
    result_.lower_bound = std::max(result_.lower_bound, bound);
    return true;
  }

  const SearchLimits& limits_;
  Reparametrised shifted_;
  SearchResult result_;
};

}  // namespace

SearchResult minimise(const Network& network, const SearchLimits& limits) {
  Part part = Part::of(network, undominated_values(network));
  SearchResult result;
  if (part.impossible) {
    result.lower_bound = forbidden;
    return result;
  }
  EliminationOrder order = elimination_order(part.network);
  bool direct = order.largest <= std::min(limits.direct_limit, limits.table_limit);
  result = direct ? eliminate_and_search(part.network, order, limits) : BoundedSearch(part.network, limits).run();
  result.variables = network.variable_count();
  result.values = part.value_count();
  if (direct) result.values_left = result.values;
  result.largest_table = std::max(result.largest_table, direct ? 0 : order.largest);
  if (result.assignment.empty()) return result;
  result.assignment = part.original(std::move(result.assignment));
  HETSYNTH_CHECK(network.cost(result.assignment) == result.cost,
                 "the search and the network disagree on the cost of an assignment");
  return result;
}

}  // namespace hetsynth::synth
