#include "synth/network/plan_network.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <unordered_map>

#include "dsl/base/error.h"
#include "synth/model/distinct_devices.h"
#include "synth/network/materialisation_domain.h"

namespace hetsynth::synth {
namespace {

/// A table by kinds of rows, spread over all of them.
Table spread_rows(const Table& costs, const std::vector<int>& rows, size_t columns) {
  Table out;
  out.reserve(rows.size() * columns);
  for (int row : rows) {
    const auto begin = costs.begin() + ptrdiff_t(size_t(row) * columns);
    out.insert(out.end(), begin, begin + ptrdiff_t(columns));
  }
  return out;
}

/// The same of one by kinds of columns as well.
Table spread(const Table& costs, const std::vector<int>& rows, const std::vector<int>& columns, size_t column_kinds) {
  Table by_kind;
  by_kind.reserve(costs.size() / std::max<size_t>(1, column_kinds) * columns.size());
  for (size_t row = 0; row < costs.size(); row += column_kinds)
    for (int column : columns) by_kind.push_back(costs[row + size_t(column)]);
  return spread_rows(by_kind, rows, columns.size());
}

/// 0, 1, ...
std::vector<int> first_numbers(size_t count) {
  std::vector<int> out(count);
  std::iota(out.begin(), out.end(), 0);
  return out;
}

class NetworkBuilder {
 public:
  NetworkBuilder(const Problem& problem, const Conversions& conversions, const Shares& shares, const SearchInput& input)
      : problem_(problem),
        program_(problem.program),
        conversions_(conversions),
        shares_(shares),
        input_(input),
        prices_(problem, conversions, shares, input.memory),
        sets_(problem, conversions, prices_),
        devices_(problem.cost, shares) {
    for (const Node& node : program_.nodes) add_values(node);
  }

  PlanNetwork build() {
    for (const Node& node : program_.nodes) add_node(node);
    for (const Node& node : program_.nodes) add_tensor(node);
    out_.network.finish();
    return std::move(out_);
  }

 private:
  /// The costs that stem from one tensor, by number of table: of the node's own variable, of pairs of the node or of
  /// the set variable with each consumer.
  struct TensorCosts {
    int unary = -1;
    int to_consumer = -1;  ///< no set variable: pair of node and only consumer
    const std::vector<FormSets>* sets = nullptr;
    int set_unary = -1;
    int to_set = -1;            ///< pair of node and set variable
    std::vector<int> of_needs;  ///< pairs of set variable and consumers
  };

  TableStore& store() const { return out_.network.store(); }

  /// By a node's variable's values: an option of an operation, or which of a leaf's forms.
  const std::vector<int>& values(NodeId node) const { return value_lists_[values_of_[size_t(node)]]; }

  void add_values(const Node& node) {
    if (input_.among) {
      values_of_.push_back(value_lists_.number((*input_.among)[size_t(node.id)]));
      return;
    }
    const size_t count = node.leaf() ? problem_.rules.leaf_forms(node).size() : problem_.rules.options[node.id].size();
    const auto [it, fresh] = all_values_.try_emplace(count, -1);
    if (fresh) it->second = value_lists_.number(first_numbers(count));
    values_of_.push_back(it->second);
  }

  /// The form a node's tensor is first made in, by value of its variable.
  std::vector<int> sources(const Node& node) const {
    std::vector<int> out;
    const std::vector<int> forms = node.leaf() ? problem_.rules.leaf_forms(node) : std::vector<int>();
    for (int value : values(node.id))
      out.push_back(node.leaf() ? forms[size_t(value)] : problem_.rules.option(node.id, value).form);
    return out;
  }

  void add_node(const Node& node) {
    key_.assign({problem_.rules.options.kind(node.id), problem_.cost.work_kind(node.id),
                 node.leaf() ? conversions_.kind_of(node.id) : -1, int(node.kind), values_of_[size_t(node.id)]});
    int& unary = unary_of_kind_.try_emplace(key_, -1).first->second;
    if (unary < 0) unary = store().intern(node_costs(node));
    out_.network.add_variable(unary, node.id);
    if (!input_.pins) return;
    auto pin = input_.pins->find(node.id);
    if (pin == input_.pins->end()) return;
    Table pinned(size_t(out_.network.domain(node.id)), forbidden);
    for (size_t x = 0; x < pinned.size(); ++x)
      if (std::ranges::count(pin->second, values(node.id)[x]) > 0) pinned[x] = 0;
    out_.network.add_costs(node.id, store().intern(std::move(pinned)));
  }

  Table node_costs(const Node& node) const {
    Table costs;
    if (node.leaf()) {
      for (int form : sources(node)) costs.push_back(prices_.of_leaf(node, form));
      return costs;
    }
    const auto& options = problem_.rules.options[node.id];
    for (int value : values(node.id)) costs.push_back(operation_cost(node.id, options[size_t(value)]));
    return costs;
  }

  Picoseconds operation_cost(NodeId node, const Option& option) const {
    return input_.operation_cost ? input_.operation_cost(node, option)
                                 : problem_.cost.operator_cost(node, option, shares_, devices_);
  }

  /// Of the values there are.
  std::vector<VariableNeeds> needs_among_values(const Node& node) const {
    const std::vector<VariableNeeds>& all = problem_.analysis->needs.of(*problem_.analysis, node.id);
    std::vector<VariableNeeds> out;
    size_t need = 0;
    for (NodeId consumer : problem_.consumers[node.id]) out.push_back(needs_among(all[need++], values(consumer)));
    for (NodeId leaf : problem_.update_targets[node.id])
      if (leaf != node.id) out.push_back(needs_among(all[need++], values(leaf)));
    return out;
  }

  std::vector<FormMask> constant_needs(const Node& node) const {
    std::vector<FormMask> out;
    if (node.id == program_.loss) out.push_back(1);
    if (problem_.is_output[node.id]) out.push_back(readable(problem_.rules.forms[node.id]));
    return out;
  }

  void add_tensor(const Node& node) {
    set_key(node);
    auto [it, fresh] = costs_of_kind_.try_emplace(key_);
    if (fresh) it->second = tensor_costs(node);
    const TensorCosts& costs = it->second;
    if (costs.unary >= 0) out_.network.add_costs(node.id, costs.unary);
    if (costs.to_consumer >= 0) out_.network.add_pair(node.id, only_consumer(node), costs.to_consumer);
    if (!costs.sets) return;
    int variable = out_.network.add_variable(costs.set_unary, node.id + 0.5);
    out_.network.add_pair(node.id, variable, costs.to_set);
    size_t need = 0;
    for (NodeId consumer : problem_.consumers[node.id])
      out_.network.add_pair(variable, consumer, costs.of_needs[need++]);
    for (NodeId leaf : problem_.update_targets[node.id])
      if (leaf != node.id) out_.network.add_pair(variable, leaf, costs.of_needs[need++]);
    out_.set_node.push_back(node.id);
    out_.sets.push_back(costs.sets);
  }

  NodeId only_consumer(const Node& node) const {
    if (!problem_.consumers[node.id].empty()) return problem_.consumers[node.id][0];
    for (NodeId leaf : problem_.update_targets[node.id])
      if (leaf != node.id) return leaf;
    throw InternalError("a tensor without a consumer");
  }

  /// Everything that tensor_costs depends on.
  void set_key(const Node& node) {
    key_.assign(
        {problem_.analysis->tensor_situation[size_t(node.id)], problem_.cost.fused(node.id), prices_.kind_of(node)});
    if (input_.memory.again) key_.push_back(prices_.remake_kind_of(node));
    if (!input_.among) return;  // all values of them
    key_.push_back(values_of_[size_t(node.id)]);
    for (NodeId consumer : problem_.consumers[node.id]) key_.push_back(values_of_[size_t(consumer)]);
    for (NodeId target : problem_.update_targets[node.id]) key_.push_back(values_of_[size_t(target)]);
  }

  TensorCosts tensor_costs(const Node& node) {
    if (!input_.among) return tensor_costs(node, problem_.analysis->needs.of(*problem_.analysis, node.id));
    return tensor_costs(node, needs_among_values(node));
  }

  TensorCosts tensor_costs(const Node& node, const std::vector<VariableNeeds>& needs) {
    std::vector<FormMask> fixed = constant_needs(node);
    Grouped<int> from;
    for (int form : sources(node)) from.add(form);
    const ConversionTable& table = conversions_.of(node.id);
    TensorCosts out;
    if (needs.empty()) {
      Table costs(from.kinds.size());
      for (size_t k = 0; k < costs.size(); ++k) table.best_set(from.kinds[k], fixed, &costs[k]);
      out.unary = store().intern(spread(costs, from.of, {0}, 1));
    } else if (needs.size() == 1 && !prices_.any()) {
      const auto& asked = needs[0].masks;
      Table costs(from.kinds.size() * asked.kinds.size());
      Picoseconds* cost = costs.data();
      for (int source : from.kinds)
        for (const Needs* masks : asked.kinds) {
          fixed.insert(fixed.end(), masks->begin(), masks->end());
          table.best_set(source, fixed, cost++);
          fixed.resize(fixed.size() - masks->size());
        }
      out.to_consumer = store().intern(spread(costs, from.of, asked.of, asked.kinds.size()));
    } else {
      add_sets(node, from, needs, fixed, &out);
    }
    return out;
  }

  void add_sets(const Node& node, const Grouped<int>& from, const std::vector<VariableNeeds>& needs,
                const std::vector<FormMask>& fixed, TensorCosts* out) {
    out_.set_lists.push_back(input_.like ? *sets_there(node.id) : candidate_sets(node, from.kinds, needs, fixed));
    const std::vector<FormSets>& sets = out_.set_lists.back();
    out->sets = &sets;
    out->set_unary = store().intern(Table(sets.size(), 0));
    Table costs(from.kinds.size()), of_all(costs.size() * sets.size());
    for (size_t i = 0; i < sets.size(); ++i) {
      sets_.cost(node, from.kinds, sets[i], costs.data());
      for (size_t s = 0; s < costs.size(); ++s) of_all[s * sets.size() + i] = costs[s];
    }
    out->to_set = store().intern(spread_rows(of_all, from.of, sets.size()));
    for (const VariableNeeds& need : needs) {
      const auto same = std::find(needs.data(), &need, need);
      out->of_needs.push_back(same != &need ? out->of_needs[size_t(same - needs.data())]
                                            : store().intern(allowed(sets, need)));
    }
  }

  /// By set and value: 0 where it has what the value asks for.
  static Table allowed(const std::vector<FormSets>& sets, const VariableNeeds& need) {
    Table out, by_kind(need.masks.kinds.size()), by_value(need.masks.of.size());
    out.reserve(sets.size() * by_value.size());
    for (const FormSets& set : sets) {
      const FormMask there = set.apart && need.late ? set.late : set.early;
      for (size_t k = 0; k < by_kind.size(); ++k) by_kind[k] = serves(there, *need.masks.kinds[k]) ? 0 : forbidden;
      for (size_t y = 0; y < by_value.size(); ++y) by_value[y] = by_kind[size_t(need.masks.of[y])];
      out.insert(out.end(), by_value.begin(), by_value.end());
    }
    return out;
  }

  const std::vector<FormSets>* sets_there(NodeId node) const {
    const std::vector<NodeId>& nodes = input_.like->set_node;
    const size_t at = size_t(std::lower_bound(nodes.begin(), nodes.end(), node) - nodes.begin());
    HETSYNTH_CHECK(at < nodes.size() && nodes[at] == node, "networks of different programs");
    return input_.like->sets[at];
  }

  std::vector<FormSets> candidate_sets(const Node& node, const std::vector<int>& from,
                                       const std::vector<VariableNeeds>& needs,
                                       const std::vector<FormMask>& fixed) const {
    std::set<FormMask> early(fixed.begin(), fixed.end()), late;
    for (const VariableNeeds& need : needs)
      for (const Needs* masks : need.masks.kinds) (need.late ? late : early).insert(masks->begin(), masks->end());
    return sets_.of(node, from, early, late, fixed);
  }

  const Problem& problem_;
  const Program& program_;
  const Conversions& conversions_;
  const Shares& shares_;
  const SearchInput& input_;
  MemoryPenalties prices_;
  MaterialisationDomain sets_;
  DistinctDevices devices_;
  Interner<int> value_lists_;
  std::vector<int> values_of_;                  ///< by node: a list
  std::unordered_map<size_t, int> all_values_;  ///< by how many there are: a list
  std::unordered_map<std::vector<int>, int, SequenceHash> unary_of_kind_;
  std::unordered_map<std::vector<int>, TensorCosts, SequenceHash> costs_of_kind_;
  std::vector<int> key_;  ///< of the node at hand
  PlanNetwork out_;
};

}  // namespace

NamedValues named_values(const PlanNetwork& plan) {
  NamedValues out;
  const size_t variables = size_t(plan.network.variable_count()), nodes = variables - plan.sets.size();
  for (size_t v = 0; v < variables; ++v) {
    const size_t set = v - nodes;  // of set variables
    out.variables.push_back(v < nodes ? int64_t(v) : int64_t(nodes) + plan.set_node[set]);
    out.values.emplace_back(size_t(plan.network.domain(int(v))));
    std::iota(out.values.back().begin(), out.values.back().end(), 0);
    for (size_t x = 0; v >= nodes && x < out.values.back().size(); ++x) {
      const FormSets& sets = (*plan.sets[set])[x];
      out.values.back()[x] =
          int64_t(SequenceHash().of(&sets.early, 1) + 2 * SequenceHash().of(&sets.late, 1)) + sets.apart;
    }
  }
  return out;
}

PlanNetwork build_network(const Problem& problem, const Conversions& conversions, const Shares& shares,
                          const SearchInput& input) {
  return NetworkBuilder(problem, conversions, shares, input).build();
}

PlanNetwork build_network(const Problem& problem, std::function<Picoseconds(NodeId, const Option&)> operation,
                          const ConversionTable::Edge& conversion) {
  SearchInput input;
  input.pins = &problem.pins;
  input.operation_cost = std::move(operation);
  return build_network(problem, Conversions(*problem.analysis, conversion), {}, input);
}

}  // namespace hetsynth::synth
