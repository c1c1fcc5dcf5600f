#include "synth/astar.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "dsl/base/error.h"
#include "synth/reparametrise.h"

namespace hetsynth::synth {
namespace {

/// A partial assignment: the variables of the last `depth` buckets, linked to the states it grew from.
struct State {
  int parent = -1;
  int value = -1;
  int depth = 0;
};

struct Open {
  Picoseconds f;
  int depth;
  int state;
  /// Least f first; of equals the deepest, then the earliest.
  bool operator<(const Open& other) const {
    return std::tuple(-f, depth, -state) < std::tuple(-other.f, other.depth, -other.state);
  }
};

class AStar {
 public:
  AStar(const TableStore& store, const Elimination& elimination, const Network& network)
      : store_(store), elimination_(elimination), network_(network), values_(network.variable_count(), -1) {}

  void run(const SearchLimits& limits, SearchResult* result) {
    Picoseconds root = elimination_.constant;
    result->lower_bound = root;
    dive(root, result);
    states_.push_back({});
    std::priority_queue<Open> open;
    open.push({root, 0, 0});
    while (!open.empty()) {
      Open best = open.top();
      result->lower_bound = std::min(best.f, result->cost);
      if (best.depth == network_.variable_count()) {
        load(best.state);
        result->cost = best.f;
        result->assignment = values_;
        return;
      }
      if (result->expansions >= limits.expansion_limit) return;
      if (limits.keep_going && result->expansions % 1024 == 1023 && !limits.keep_going()) return;
      open.pop();
      ++result->expansions;
      load(best.state);
      int variable = bucket_at(best.depth).variable;
      for (int value = 0; value < network_.domain(variable); ++value) {
        Picoseconds f = child_cost(best.depth, best.f, value);
        if (f > result->cost || f >= forbidden) continue;
        states_.push_back({best.state, value, best.depth + 1});
        open.push({f, best.depth + 1, int(states_.size()) - 1});
      }
    }
    result->lower_bound = result->cost;
  }

 private:
  const Bucket& bucket_at(int depth) const { return elimination_.buckets[elimination_.buckets.size() - 1 - depth]; }

  Picoseconds evaluate(const CostFunction& function) const {
    size_t offset = 0;
    for (int v : function.scope) offset = offset * network_.domain(v) + values_[v];
    return store_[function.table][offset];
  }

  /// f of a child: the bucket's functions are now known, its messages are answered for.
  Picoseconds child_cost(int depth, Picoseconds f, int value) {
    const Bucket& bucket = bucket_at(depth);
    values_[bucket.variable] = value;
    Picoseconds gain = -bucket.shift;
    for (const CostFunction& function : bucket.functions) {
      Picoseconds cost = evaluate(function);
      if (cost >= forbidden) return forbidden;
      gain += cost;
    }
    for (const CostFunction& message : bucket.messages) gain -= evaluate(message);
    return add(f, gain);
  }

  void load(int state) {
    for (; states_[state].parent >= 0; state = states_[state].parent)
      values_[bucket_at(states_[state].depth - 1).variable] = states_[state].value;
  }

  /// The best child at every level: a first solution, and the optimum if the heuristic is perfect.
  void dive(Picoseconds f, SearchResult* result) {
    for (int depth = 0; depth < network_.variable_count(); ++depth) {
      int variable = bucket_at(depth).variable, best_value = -1;
      Picoseconds best = forbidden;
      for (int value = 0; value < network_.domain(variable); ++value) {
        Picoseconds child = child_cost(depth, f, value);
        if (child < best) best = child, best_value = value;
      }
      if (best_value < 0) return;
      values_[variable] = best_value;
      f = best;
    }
    result->cost = f;
    result->assignment = values_;
  }

  const TableStore& store_;
  const Elimination& elimination_;
  const Network& network_;
  std::vector<int> values_;
  std::vector<State> states_;
};

/// Eliminates and searches. `result` gains assignment, cost and bound of this network.
SearchResult solve(const Network& network, const SearchLimits& limits) {
  SearchResult result;
  TableStore store;
  Elimination elimination = eliminate(network, &store, limits.table_limit);
  result.buckets_reused = elimination.reused;
  result.largest_table = elimination.largest_table;
  result.lower_bound = elimination.constant;
  if (elimination.constant < forbidden) AStar(store, elimination, network).run(limits, &result);
  return result;
}

/// A network over some values of another, with the way back.
struct Part {
  Network network;
  std::vector<std::vector<int>> values;  ///< of the other network, by variable
  bool impossible = false;               ///< some variable has no value left

  static Part of(const Network& whole, std::vector<std::vector<int>> values) {
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
      : limits_(limits), shifted_(reparametrise(network)) {
    result_.relaxation = result_.lower_bound = shifted_.bound;
    if (shifted_.decoded.empty()) return;
    result_.assignment = shifted_.decoded;
    result_.cost = network.cost(shifted_.decoded);
  }

  SearchResult run() {
    Picoseconds tau = std::max<Picoseconds>(1, shifted_.bound / 10'000'000);
    while (result_.cost > result_.lower_bound) {
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
    if (!complete && elimination_size(part.network) > limits_.table_limit) {
      Picoseconds gap = result_.cost - shifted_.bound;
      return attempt(gap, true) && false;
    }
    SearchResult found = solve(part.network, limits_);
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
  bool direct = elimination_size(part.network) <= std::min(limits.direct_limit, limits.table_limit);
  result = direct ? solve(part.network, limits) : BoundedSearch(part.network, limits).run();
  result.variables = network.variable_count();
  result.values = part.value_count();
  if (direct) result.values_left = result.values;
  if (result.assignment.empty()) return result;
  result.assignment = part.original(std::move(result.assignment));
  HETSYNTH_CHECK(network.cost(result.assignment) == result.cost,
                 "the search and the network disagree on the cost of an assignment");
  return result;
}

}  // namespace hetsynth::synth
