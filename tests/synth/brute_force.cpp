#include "brute_force.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>

namespace hetsynth::testing_support {
namespace {

using namespace synth;

class Dijkstra {
 public:
  Dijkstra(const Problem& problem, const Shares& shares) : problem_(problem), shares_(shares) {
    for (const Node& node : problem.program.nodes)
      if (!node.leaf()) order_.push_back(node.id);
  }

  Picoseconds run() {
    push(0, State{});
    Picoseconds best = forbidden;
    while (!queue_.empty()) {
      auto [cost, state] = queue_.top();
      queue_.pop();
      if (cost > seen_.at(state)) continue;
      if (int(state.kept.size()) < leaf_count()) {
        choose_leaf(cost, state);
      } else if (state.done < int(order_.size())) {
        compute(cost, state);
        for (NodeId input : problem_.program[order_[state.done]].inputs) convert(cost, state, input);
      } else {
        if (finished(state)) return cost;
        for (const Update& update : problem_.program.updates) convert(cost, state, update.value);
        convert(cost, state, problem_.program.loss);
      }
    }
    return best;
  }

 private:
  using Value = std::pair<NodeId, int>;  // node, form
  struct State {
    int done = 0;
    std::vector<int> kept;  // forms of the leaves
    std::set<Value> exists;
    auto operator<=>(const State&) const = default;
  };
  struct Entry {
    Picoseconds cost;
    State state;
    bool operator<(const Entry& other) const { return cost > other.cost; }
  };

  int leaf_count() const { return int(problem_.program.nodes.size() - order_.size()); }

  NodeId leaf(int number) const {
    for (const Node& node : problem_.program.nodes)
      if (node.leaf() && number-- == 0) return node.id;
    return -1;
  }

  void push(Picoseconds cost, State state) {
    if (cost >= forbidden) return;
    auto [it, fresh] = seen_.try_emplace(state, cost);
    if (!fresh && it->second <= cost) return;
    it->second = cost;
    queue_.push({cost, std::move(state)});
  }

  void choose_leaf(Picoseconds cost, const State& state) {
    NodeId id = leaf(int(state.kept.size()));
    for (int form = 0; form < int(problem_.rules.forms[id].size()); ++form) {
      if (problem_.rules.forms[id][form].partial()) continue;
      State next = state;
      next.kept.push_back(form);
      next.exists.insert({id, form});
      // Data of the batch can be had in every cut at once.
      if (problem_.program[id].kind == NodeKind::input && form > 0) continue;
      push(cost, next);
    }
  }

  void compute(Picoseconds cost, const State& state) {
    NodeId id = order_[state.done];
    for (const Option& option : problem_.rules.options[id]) {
      bool ready = true;
      for (size_t j = 0; j < option.needs.size(); ++j) {
        bool held = false;
        for (int form = 0; form < 32; ++form)
          held = held || ((option.needs[j] >> form & 1) && state.exists.count({problem_.program[id].inputs[j], form}));
        ready = ready && held;
      }
      if (!ready) continue;
      State next = state;
      ++next.done;
      next.exists.insert({id, option.form});
      forget(&next);
      push(cost + problem_.cost.operator_cost(id, option, shares_), std::move(next));
    }
  }

  /// Values that nothing can use any more do not tell states apart.
  void forget(State* state) const {
    std::set<NodeId> wanted{problem_.program.loss};
    for (const Update& update : problem_.program.updates) wanted.insert(update.value);
    for (size_t i = state->done; i < order_.size(); ++i)
      for (NodeId input : problem_.program[order_[i]].inputs) wanted.insert(input);
    std::erase_if(state->exists, [&](const Value& v) { return !wanted.count(v.first); });
  }

  void convert(Picoseconds cost, const State& state, NodeId id) {
    const auto& forms = problem_.rules.forms[id];
    for (int from = 0; from < int(forms.size()); ++from)
      for (int to = 0; to < int(forms.size()); ++to) {
        if (!state.exists.count({id, from}) || state.exists.count({id, to})) continue;
        Conversion conversion = problem_.cost.conversion(id, forms[from], forms[to], shares_);
        if (!conversion.possible) continue;
        State next = state;
        next.exists.insert({id, to});
        push(cost + conversion.cost, std::move(next));
      }
  }

  bool finished(const State& state) const {
    if (!state.exists.count({problem_.program.loss, 0})) return false;
    for (const Update& update : problem_.program.updates) {
      int number = 0;
      for (NodeId id = 0; id < update.target; ++id) number += problem_.program[id].leaf();
      const Form& form = problem_.rules.forms[update.target][state.kept[number]];
      if (!state.exists.count({update.value, problem_.rules.form_index(update.value, form)})) return false;
    }
    return true;
  }

  const Problem& problem_;
  const Shares& shares_;
  std::vector<NodeId> order_;
  std::map<State, Picoseconds> seen_;
  std::priority_queue<Entry> queue_;
};

}  // namespace

Picoseconds brute_force_cost(const Problem& problem, const Shares& shares) { return Dijkstra(problem, shares).run(); }

}  // namespace hetsynth::testing_support
