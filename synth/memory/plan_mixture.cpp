#include "synth/memory/plan_mixture.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace hetsynth::synth {
namespace {

/// Sets of forms that were left open become those that they come to. `sources`: the forms that tensors are made in.
Choices with_sets(const Problem& problem, const Conversions& conversions, Choices choices, std::vector<int>* sources) {
  std::vector<FormSets> sets;
  Materialiser materialiser(problem, conversions);
  for (const Node& node : problem.program.nodes) {
    const Materialisation& made = materialiser.of(choices, node.id);
    sources->push_back(made.source);
    sets.push_back(made.sets);
    sets.back().chosen = true;
  }
  choices.sets = std::move(sets);
  return choices;
}

}  // namespace

PlanMixture::PlanMixture(const Problem& problem, const Conversions& conversions, const Shares& shares,
                         const MemoryPrice& price, const Choices& a, const Choices& b)
    : problem_(problem),
      a_(with_sets(problem, conversions, a, &sources_a_)),
      b_(with_sets(problem, conversions, b, &sources_b_)) {
  find_parts();
  const MemoryPenalties prices(problem, conversions, shares, price);
  Materialiser of_a(problem, conversions), of_b(problem, conversions);
  const auto time = [&](const Choices& choices, Materialiser& materialiser, const Node& node) {
    double sum = double(materialiser.of(choices, node.id).cost);
    if (!node.leaf())
      sum += double(problem.cost.operator_cost(node.id, problem.rules.option(node.id, choices[node.id]), shares));
    return sum;
  };
  const auto memory = [&](const Choices& choices, int source, const Node& node) {
    const double kept = double(prices.of_kept(node, source, choices.sets[size_t(node.id)]));
    return node.leaf() ? kept + double(prices.of_leaf(node, source)) : kept;
  };
  for (Part& part : parts_)
    for (NodeId id : part.nodes) {
      const Node& node = problem.program[id];
      part.time += time(b_, of_b, node) - time(a_, of_a, node);
      part.memory += memory(b_, sources_b_[size_t(id)], node) - memory(a_, sources_a_[size_t(id)], node);
    }
  std::ranges::stable_sort(parts_, {}, &Part::rate);
}

double PlanMixture::Part::rate() const {
  const double saved = std::abs(memory), longer = thrifty_in_b() ? time : -time;
  return longer <= 0 || saved == 0 ? -1 : longer / saved;
}

/// A tensor's set of forms binds it to those that read it and to the leaves that it replaces.
void PlanMixture::find_parts() {
  const auto& nodes = problem_.program.nodes;
  std::vector<NodeId> parent(nodes.size());
  std::iota(parent.begin(), parent.end(), 0);
  const auto root = [&](NodeId n) {
    while (parent[size_t(n)] != n) n = parent[size_t(n)] = parent[size_t(parent[size_t(n)])];
    return n;
  };
  std::vector<char> differs(nodes.size(), 0);
  for (const Node& node : nodes) {
    const auto n = size_t(node.id);
    const bool forms = a_.sets[n] != b_.sets[n] || sources_a_[n] != sources_b_[n];
    differs[n] = differs[n] || forms || a_.of[n] != b_.of[n];
    if (!forms) continue;
    const auto bind = [&](NodeId other) {
      const auto o = size_t(other);
      if (a_.of[o] != b_.of[o]) parent[size_t(root(other))] = root(node.id);
    };
    for (NodeId consumer : problem_.consumers[node.id]) bind(consumer);
    for (NodeId leaf : problem_.update_targets[node.id]) bind(leaf);
  }
  std::map<NodeId, size_t> part_of;  // in order of their first nodes
  for (const Node& node : nodes) {
    if (!differs[size_t(node.id)]) continue;
    const auto [it, fresh] = part_of.try_emplace(root(node.id), parts_.size());
    if (fresh) parts_.emplace_back();
    parts_[it->second].nodes.push_back(node.id);
  }
}

Choices PlanMixture::with(size_t thrifty) const {
  Choices out = a_;
  for (size_t p = 0; p < parts_.size(); ++p) {
    if ((p < thrifty) != parts_[p].thrifty_in_b()) continue;
    for (NodeId n : parts_[p].nodes) {
      out.of[size_t(n)] = b_.of[size_t(n)];
      out.sets[size_t(n)] = b_.sets[size_t(n)];
    }
  }
  return out;
}

}  // namespace hetsynth::synth
