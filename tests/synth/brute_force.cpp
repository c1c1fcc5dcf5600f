#include "brute_force.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <tuple>

#include "dsl/base/error.h"

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
      if (!holds_operands(state, id, option)) continue;
      State next = state;
      next.exists.insert({id, option.form});
      ++next.done;
      forget(&next);
      push(cost + problem_.cost.operator_cost(id, option, shares_), std::move(next));
    }
  }

  bool holds_operands(const State& state, NodeId id, const Option& option) const {
    for (size_t j = 0; j < option.needs.size(); ++j) {
      bool held = false;
      for (int form = 0; form < max_forms; ++form)
        held = held || ((option.needs[j] >> form & 1) && state.exists.count({problem_.program[id].inputs[j], form}));
      if (!held) return false;
    }
    return true;
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

class Enumeration {
 public:
  Enumeration(const Problem& problem, const Shares& shares, Picoseconds bound)
      : problem_(problem),
        shares_(shares),
        choices_{std::vector<int>(problem.program.nodes.size(), 0), {}},
        best_(bound + 1),
        rest_(problem.program.nodes.size() + 1, 0) {
    for (NodeId id = NodeId(problem.program.nodes.size()); id-- > 0;) {
      Picoseconds least = problem.program[id].leaf() ? 0 : forbidden;
      for (size_t c = 0; c < problem.rules.options[id].size(); ++c)
        least = std::min(least, operator_cost(problem.program[id], int(c)));
      rest_[id] = rest_[id + 1] + least;
    }
    for (const Node& node : problem.program.nodes) {
      NodeId last = node.id;
      for (NodeId consumer : problem.consumers[node.id]) last = std::max(last, consumer);
      for (const Update& update : problem.program.updates)
        if (update.value == node.id) last = std::max(last, update.target);
      settled_.resize(problem.program.nodes.size());
      settled_[last].push_back(node.id);
    }
  }

  Picoseconds run() {
    choose(0, 0);
    return best_;
  }

 private:
  void choose(NodeId id, Picoseconds cost) {
    if (cost + rest_[id] >= best_) return;
    if (id == NodeId(problem_.program.nodes.size())) {
      best_ = cost;
      return;
    }
    const Node& node = problem_.program[id];
    size_t choices = node.leaf() ? problem_.rules.forms[id].size() : problem_.rules.options[id].size();
    if (node.kind == NodeKind::input) choices = 1;
    for (size_t c = 0; c < choices; ++c) {
      if (node.leaf() && problem_.rules.forms[id][c].partial()) continue;
      choices_.of[id] = int(c);
      Picoseconds sum = cost;
      if (!node.leaf()) sum += operator_cost(node, int(c));
      for (NodeId tensor : settled_[id]) sum = std::min(forbidden, sum + tensor_cost(problem_.program[tensor]));
      choose(id + 1, sum);
    }
  }

  Picoseconds operator_cost(const Node& node, int choice) {
    auto [it, fresh] = operators_.try_emplace({node.id, choice}, 0);
    if (fresh) it->second = problem_.cost.operator_cost(node.id, problem_.rules.options[node.id][choice], shares_);
    return it->second;
  }

  /// Cheapest set of forms that serves all consumers.
  Picoseconds tensor_cost(const Node& node) {
    std::set<FormMask> needs;
    for (const TensorNeed& need : needs_of(problem_, choices_, node.id)) needs.insert(need.forms);
    int source = node.kind == NodeKind::input ? 0
                 : node.leaf()                ? choices_[node.id]
                                              : problem_.rules.options[node.id][choices_[node.id]].form;
    auto [it, fresh] = tensors_.try_emplace({node.id, source, needs}, forbidden);
    if (!fresh) return it->second;
    const std::vector<Picoseconds>& costs = set_costs(node.id, source);
    for (FormMask set = 0; set < costs.size(); ++set)
      if (std::all_of(needs.begin(), needs.end(), [&](FormMask need) { return (need & set) != 0; }))
        it->second = std::min(it->second, costs[set]);
    return it->second;
  }

  /// By set of forms that exist: least cost to get there from one form.
  const std::vector<Picoseconds>& set_costs(NodeId id, int source) {
    const auto& forms = problem_.rules.forms[id];
    HETSYNTH_CHECK(forms.size() <= 16, "too many forms to enumerate their sets");
    auto [it, fresh] = sets_.try_emplace({id, source});
    if (!fresh) return it->second;
    std::vector<Picoseconds> costs(size_t(1) << forms.size(), forbidden);
    std::vector<Conversion> edges;
    for (const Form& from : forms)
      for (const Form& to : forms) edges.push_back(problem_.cost.conversion(id, from, to, shares_));
    costs[size_t(1) << source] = 0;
    // Sets only grow: in the order of their numbers every smaller set is settled.
    for (size_t set = 1; set < costs.size(); ++set)
      for (size_t from = 0; costs[set] < forbidden && from < forms.size(); ++from)
        for (size_t to = 0; (set >> from & 1) && to < forms.size(); ++to) {
          const Conversion& edge = edges[from * forms.size() + to];
          size_t grown = set | size_t(1) << to;
          if (edge.possible && grown != set) costs[grown] = std::min(costs[grown], costs[set] + edge.cost);
        }
    return it->second = costs;
  }

  const Problem& problem_;
  const Shares& shares_;
  Choices choices_;
  Picoseconds best_;
  std::vector<Picoseconds> rest_;             ///< by node: least cost of this and all later operations
  std::vector<std::vector<NodeId>> settled_;  ///< by node: tensors all of whose consumers are chosen with it
  std::map<std::pair<NodeId, int>, Picoseconds> operators_;
  std::map<std::tuple<NodeId, int, std::set<FormMask>>, Picoseconds> tensors_;
  std::map<std::pair<NodeId, int>, std::vector<Picoseconds>> sets_;
};

}  // namespace

Picoseconds enumerated_cost(const Problem& problem, const Shares& shares, Picoseconds bound) {
  return Enumeration(problem, shares, bound).run();
}

Picoseconds brute_force_cost(const Problem& problem, const Shares& shares) { return Dijkstra(problem, shares).run(); }

}  // namespace hetsynth::testing_support
