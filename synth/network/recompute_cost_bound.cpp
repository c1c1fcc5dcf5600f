#include "synth/network/recompute_cost_bound.h"

#include <algorithm>
#include <map>
#include <set>

#include "synth/model/distinct_devices.h"

namespace hetsynth::synth {
namespace {

/// By the form it makes: of the cheapest way to do so.
std::vector<Picoseconds> operation_costs(const Problem& problem, const Shares& shares, const DistinctDevices& devices,
                                         NodeId node) {
  std::vector<Picoseconds> costs(problem.rules.forms[node].size(), forbidden);
  for (const Option& option : problem.rules.options[node]) {
    Picoseconds& least = costs[size_t(option.form)];
    least = std::min(least, problem.cost.operator_cost(node, option, shares, devices));
  }
  return costs;
}

/// Whether a tensor is read last by an operation of the forward phase, and nowhere else later.
bool ends_with(const Problem& problem, NodeId tensor, NodeId reader) {
  const std::vector<NodeId>& readers = problem.consumers[tensor];
  return *std::max_element(readers.begin(), readers.end()) == reader && problem.update_targets[tensor].empty() &&
         !problem.is_output[tensor] && tensor != problem.program.loss;
}

}  // namespace

RecomputeCostBound::RecomputeCostBound(const Problem& problem, const Shares& shares, NodeId boundary,
                                       const std::function<Picoseconds(const Node& node)>& kept)
    : kinds_(problem.program.nodes.size(), -1) {
  const DistinctDevices devices(problem.cost, shares);
  std::map<std::pair<int, int>, std::vector<Picoseconds>> of_operations;
  std::map<std::vector<Picoseconds>, int> seen;
  for (const Node& node : problem.program.nodes) {
    if (node.leaf() || node.id > boundary) continue;
    const auto [operation, fresh] =
        of_operations.try_emplace({problem.rules.options.kind(node.id), problem.cost.work_kind(node.id)});
    if (fresh) operation->second = operation_costs(problem, shares, devices, node.id);
    Picoseconds inputs = 0;
    for (NodeId input : std::set<NodeId>(node.inputs.begin(), node.inputs.end())) {
      if (kinds_[size_t(input)] < 0 || !ends_with(problem, input, node.id)) continue;
      const std::vector<Picoseconds>& costs = costs_[size_t(kinds_[size_t(input)])];
      const Picoseconds again = *std::min_element(costs.begin(), costs.end());
      inputs = std::min(forbidden, inputs + std::min(again, kept(problem.program[input])));
    }
    std::vector<Picoseconds> costs = operation->second;
    for (Picoseconds& cost : costs) cost = std::min(forbidden, cost + inputs);
    const auto [kind, first] = seen.try_emplace(costs, int(costs_.size()));
    if (first) costs_.push_back(std::move(costs));
    kinds_[size_t(node.id)] = kind->second;
  }
}

Picoseconds RecomputeCostBound::of(NodeId node, int form) const {
  return kind_of(node) < 0 ? forbidden : costs_[size_t(kind_of(node))][size_t(form)];
}

}  // namespace hetsynth::synth
