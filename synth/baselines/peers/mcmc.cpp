#include "synth/baselines/peers/mcmc.h"

#include <cmath>
#include <map>
#include <random>
#include <set>

namespace hetsynth::synth {
namespace {

/// A proposal that makes the step longer by this share of its first time is taken with probability 1/e.
constexpr double temperature = 2e-3;

class Walk {
 public:
  Walk(const AtShares& at, const WalkOptions& options)
      : problem_(at.problem),
        at_(at),
        random_(options.seed),
        materialiser_(at.problem, at.conversions),
        current_(data_parallel_choices(at.problem)) {
    std::map<std::pair<int, int>, std::vector<NodeId>> kinds;
    for (const Node& node : problem_.program.nodes) {
      if (domain(node) < 2) continue;
      movable_.push_back(node.id);
      if (!node.leaf()) kinds[kind(node.id)].push_back(node.id);
    }
    for (auto& [key, nodes] : kinds) alike_[nodes.front()] = nodes;
    for (auto& [first, nodes] : alike_)
      for (NodeId node : nodes) first_alike_[node] = first;
    updated_.resize(problem_.program.nodes.size());
    for (const Update& update : problem_.program.updates) updated_[update.target].push_back(update.value);
    for (const TurnLoop& loop : problem_.program.loops)
      for (const TurnLoop::Carry& c : loop.carries) updated_[c.carry].push_back(c.next);
  }

  Choices run(int proposals) {
    Picoseconds now = total_cost(problem_, at_.conversions, at_.shares, current_), least = now;
    Choices best = current_;
    const double heat = temperature * double(now);
    for (int i = 0; i < proposals && !movable_.empty(); ++i) {
      NodeId node = movable_[random_() % movable_.size()];
      int value = int(random_() % uint64_t(domain(problem_.program[node])));
      std::vector<NodeId> moved{node};
      if (first_alike_.count(node) && random_() % 2) moved = alike_[first_alike_[node]];
      std::set<NodeId> tensors = touched(moved);
      Picoseconds before = cost(moved, tensors);
      std::vector<int> old;
      for (NodeId m : moved) old.push_back(std::exchange(current_.of[m], value));
      Picoseconds change = cost(moved, tensors) - before;
      if (change > 0 && uniform() >= std::exp(-double(change) / heat)) {
        for (size_t m = 0; m < moved.size(); ++m) current_.of[moved[m]] = old[m];
        continue;
      }
      now += change;
      if (now < least) least = now, best = current_;
    }
    return best;
  }

 private:
  /// In [0, 1), the same on every machine.
  double uniform() { return std::ldexp(double(random_() >> 11), -53); }

  std::pair<int, int> kind(NodeId node) const {
    return {problem_.cost.work_kind(node), problem_.rules.options.kind(node)};
  }

  /// Values a proposal may give a node.
  int domain(const Node& node) const {
    if (!node.leaf()) return int(problem_.rules.options[node.id].size());
    if (node.kind == NodeKind::input) return 1;
    int count = 0;
    for (const Form& form : problem_.rules.forms[node.id]) count += !form.partial();
    return count;
  }

  /// Tensors whose conversions depend on the nodes' values.
  std::set<NodeId> touched(const std::vector<NodeId>& moved) const {
    std::set<NodeId> tensors;
    for (NodeId node : moved) {
      tensors.insert(node);
      tensors.insert(problem_.program[node].inputs.begin(), problem_.program[node].inputs.end());
      tensors.insert(updated_[node].begin(), updated_[node].end());
    }
    return tensors;
  }

  Picoseconds cost(const std::vector<NodeId>& moved, const std::set<NodeId>& tensors) {
    Picoseconds sum = 0;
    for (NodeId node : moved)
      if (!problem_.program[node].leaf()) sum += operator_cost(node);
    for (NodeId tensor : tensors) sum += materialiser_.of(current_, tensor).cost;
    return sum;
  }

  Picoseconds operator_cost(NodeId node) {
    auto [work, options] = kind(node);
    auto [it, fresh] = operators_.try_emplace({work, options, current_[node]}, 0);
    if (fresh) it->second = problem_.cost.operator_cost(node, problem_.rules.options[node][current_[node]], at_.shares);
    return it->second;
  }

  const Problem& problem_;
  const AtShares& at_;
  std::mt19937_64 random_;
  Materialiser materialiser_;
  Choices current_;
  std::vector<NodeId> movable_;
  std::map<NodeId, std::vector<NodeId>> alike_;  ///< by the first of a kind
  std::map<NodeId, NodeId> first_alike_;
  std::vector<std::vector<NodeId>> updated_;  ///< by leaf or carry: values it takes
  std::map<std::tuple<int, int, int>, Picoseconds> operators_;
};

}  // namespace

Choices walked_choices(const AtShares& at, const WalkOptions& options) {
  return Walk(at, options).run(options.proposals);
}

}  // namespace hetsynth::synth
