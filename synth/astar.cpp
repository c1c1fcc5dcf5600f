#include "synth/astar.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "dsl/base/error.h"

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
  AStar(const TableStore& store, const Elimination& elimination, const std::vector<std::vector<int>>& domains)
      : store_(store), elimination_(elimination), domains_(domains), values_(domains.size(), -1) {}

  /// Returns positions in the domains.
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
      if (best.depth == int(domains_.size())) {
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
      for (int value = 0; value < int(domains_[variable].size()); ++value) {
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
    for (int v : function.scope) offset = offset * domains_[v].size() + values_[v];
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
    for (int depth = 0; depth < int(domains_.size()); ++depth) {
      int variable = bucket_at(depth).variable, best_value = -1;
      Picoseconds best = forbidden;
      for (int value = 0; value < int(domains_[variable].size()); ++value) {
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
  const std::vector<std::vector<int>>& domains_;
  std::vector<int> values_;
  std::vector<State> states_;
};

}  // namespace

SearchResult minimise(const Network& network, const SearchLimits& limits) {
  SearchResult result;
  std::vector<std::vector<int>> domains = undominated_values(network);
  result.variables = network.variable_count();
  for (const auto& domain : domains) result.values_left += int64_t(domain.size());
  TableStore store;
  Elimination elimination = eliminate(network, domains, &store, limits.table_limit);
  result.buckets_reused = elimination.reused;
  result.largest_table = elimination.largest_table;
  if (elimination.constant >= forbidden) {
    result.lower_bound = forbidden;
    return result;
  }
  AStar(store, elimination, domains).run(limits, &result);
  for (size_t v = 0; v < result.assignment.size(); ++v) result.assignment[v] = domains[v][result.assignment[v]];
  if (!result.assignment.empty())
    HETSYNTH_CHECK(network.cost(result.assignment) == result.cost,
                   "A* and the network disagree on the cost of an assignment");
  return result;
}

}  // namespace hetsynth::synth
