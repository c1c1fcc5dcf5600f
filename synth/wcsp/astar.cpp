#include "synth/wcsp/astar.h"

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
  AStar(const Elimination& elimination, const Network& network)
      : store_(network.store()), elimination_(elimination), network_(network), values_(network.variable_count(), -1) {
    for (int v = 0; v < network.variable_count(); ++v) sizes_.push_back(network.domain(v));
  }

  void run(const SearchLimits& limits, SearchResult* result) {
    Picoseconds root = elimination_.constant;
    result->lower_bound = root;
    dive(root, result);
    if (result->cost == root) return;
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
      if (result->expansions % 1024 == 1023 && limits.stop.stopped()) return;
      limits.stop.spend(sizes_[bucket_at(best.depth).variable]);
      open.pop();
      ++result->expansions;
      load(best.state);
      int variable = bucket_at(best.depth).variable;
      for (int value = 0; value < sizes_[variable]; ++value) {
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
    for (int v : function.scope) offset = offset * size_t(sizes_[v]) + size_t(values_[v]);
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

  /// Puts a state's values in place; what it shares with the state loaded before is in place already.
  void load(int state) {
    int other = loaded_;
    loaded_ = state;
    while (state != other) {
      if (other >= 0 && states_[other].depth > states_[state].depth) {
        other = states_[other].parent;
        continue;
      }
      if (states_[state].parent < 0) return;
      values_[bucket_at(states_[state].depth - 1).variable] = states_[state].value;
      if (other >= 0 && states_[other].depth == states_[state].depth) other = states_[other].parent;
      state = states_[state].parent;
    }
  }

  /// The best child at every level: a first solution, and the optimum if the heuristic is perfect.
  void dive(Picoseconds f, SearchResult* result) {
    for (int depth = 0; depth < network_.variable_count(); ++depth) {
      int variable = bucket_at(depth).variable, best_value = -1;
      Picoseconds best = forbidden;
      for (int value = 0; value < sizes_[variable]; ++value) {
        Picoseconds child = child_cost(depth, f, value);
        if (child < best) best = child, best_value = value;
      }
      if (best_value < 0) return;
      values_[variable] = best_value;
      f = best;
    }
    result->expansions = network_.variable_count();
    result->cost = f;
    result->assignment = values_;
  }

  const TableStore& store_;
  const Elimination& elimination_;
  const Network& network_;
  std::vector<int> sizes_;
  std::vector<int> values_;
  std::vector<State> states_;
  int loaded_ = -1;
};

}  // namespace

SearchResult eliminate_and_search(const Network& network, const EliminationOrder& order, const SearchLimits& limits) {
  SearchResult result;
  Elimination elimination = eliminate(network, order, limits.table_limit, limits.stop);
  result.buckets_reused = elimination.reused;
  result.largest_table = order.largest;
  if (!elimination.complete) return result;
  result.lower_bound = elimination.constant;
  if (elimination.constant < forbidden) AStar(elimination, network).run(limits, &result);
  return result;
}

}  // namespace hetsynth::synth
