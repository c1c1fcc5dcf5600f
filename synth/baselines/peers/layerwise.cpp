#include "synth/baselines/peers/layerwise.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "synth/baselines/peers/layers.h"
#include "synth/baselines/peers/sharded_optimizer.h"
#include "synth/schedule/memory_budget.h"

namespace hetsynth::synth {
namespace {

/// Steps that the memory of a device is counted in.
constexpr int memory_steps = 1024;

/// First and last layer that makes, reads or keeps each tensor.
std::pair<std::vector<int>, std::vector<int>> spans(const Program& program, const std::vector<int>& layer) {
  std::vector<int> first = layer, last = layer;
  auto meet = [&](NodeId tensor, NodeId user) {
    first[tensor] = std::min(first[tensor], layer[user]);
    last[tensor] = std::max(last[tensor], layer[user]);
  };
  for (const Node& node : program.nodes)
    for (NodeId input : node.inputs) meet(input, node.id);
  for (const Update& update : program.updates) meet(update.value, update.target);
  return {first, last};
}

void take(const Choices& from, NodeId node, Choices* out) {
  out->of[node] = from[node];
  out->sets[node] = from.sets.empty() ? FormSets{} : from.sets[node];
}

}  // namespace

LayerStages one_stage(const Problem& problem) {
  LayerStages out;
  for (size_t d = 0; d < problem.cluster.devices.size(); ++d)
    if (const int64_t memory = memory_budget(problem, d);
        memory > 0 && (out.memory_bytes == 0 || memory < out.memory_bytes))
      out.memory_bytes = memory;
  return out;
}

LayerProgram::LayerProgram(const AtShares& at, const std::vector<Choices>& strategies, LayerStages stages)
    : problem_(at.problem),
      at_(at),
      strategies_(strategies),
      stages_(std::move(stages)),
      layer_(layers_of(at.problem.program)),
      layers_(*std::max_element(layer_.begin(), layer_.end()) + 1),
      nodes_(layers_) {
  std::tie(first_, last_) = spans(problem_.program, layer_);
  for (const Node& node : problem_.program.nodes) nodes_[layer_[node.id]].push_back(node.id);
  find_costs();
  find_boundary_costs();
}

Choices LayerProgram::solve(double part_of_memory) const {
  struct From {
    int strategy = -1, left = 0;
  };
  const int count = int(strategies_.size());
  // [strategy][memory left]: the least seconds of the layers so far.
  using Row = std::vector<Picoseconds>;
  std::vector<Row> best(count, Row(memory_steps + 1, forbidden));
  std::vector<std::vector<std::vector<From>>> from(layers_);  // [layer][strategy][memory left]
  for (int layer = 0; layer < layers_; ++layer) {
    std::vector<Row> next(count, Row(memory_steps + 1, forbidden));
    from[layer].assign(count, std::vector<From>(memory_steps + 1));
    for (int s = 0; s < count; ++s) {
      const int needed = taken(layer, s, part_of_memory);
      const auto offer = [&](Picoseconds seconds, int left, From of) {
        if (seconds >= next[s][left]) return;
        next[s][left] = seconds;
        from[layer][s][left] = of;
      };
      if (needed > memory_steps) continue;
      if (layer == 0) {
        offer(own_[layer][s], memory_steps - needed, {});
        continue;
      }
      for (int before = 0; before < count; ++before) {
        const Picoseconds more = std::min(forbidden, changes_[layer - 1][before][s] + own_[layer][s]);
        for (int had = begins_stage(layer) ? 0 : needed; had <= memory_steps; ++had) {
          const int left = (begins_stage(layer) ? memory_steps : had) - needed;
          offer(std::min(forbidden, best[before][had] + more), left, {before, had});
        }
      }
    }
    best = std::move(next);
  }
  Picoseconds least = forbidden;
  From at;
  for (int s = 0; s < count; ++s)
    for (int left = 0; left <= memory_steps; ++left)
      if (best[s][left] < least) least = best[s][left], at = {s, left};
  if (at.strategy < 0) return {};
  std::vector<int> strategy(layers_);
  for (int layer = layers_ - 1; layer >= 0; --layer) {
    strategy[layer] = at.strategy;
    at = from[layer][at.strategy][at.left];
  }
  return mixture(strategy);
}

/// A set of forms that was chosen for consumers of one strategy is left open where others read the tensor, too.
Choices LayerProgram::mixture(const std::vector<int>& strategy) const {
  Choices out;
  out.of.resize(layer_.size());
  out.sets.resize(layer_.size());
  for (const Node& node : problem_.program.nodes) {
    take(strategies_[strategy[layer_[node.id]]], node.id, &out);
    const auto begin = strategy.begin() + first_[node.id], end = strategy.begin() + last_[node.id] + 1;
    if (std::adjacent_find(begin, end, std::not_equal_to<>()) != end) out.sets[node.id] = {};
  }
  return out;
}

/// Operators of every layer, conversions of tensors that stay in it, and its memory.
void LayerProgram::find_costs() {
  Materialiser materialiser(problem_, at_.conversions);
  own_.assign(layers_, std::vector<Picoseconds>(strategies_.size(), 0));
  bytes_.assign(layers_, std::vector<double>(strategies_.size(), 0));
  for (int layer = 0; layer < layers_; ++layer)
    for (size_t s = 0; s < strategies_.size(); ++s) {
      const Choices& strategy = strategies_[s];
      Picoseconds sum = 0;
      for (const NodeId node : nodes_[layer]) {
        if (!problem_.program[node].leaf())
          sum += problem_.cost.operator_cost(node, problem_.rules.options[node][strategy[node]], at_.shares);
        if (first_[node] == last_[node]) sum += materialiser.of(strategy, node).cost;
      }
      own_[layer][s] = std::min(forbidden, sum);
      for (int d = 0; d < problem_.cost.device_count() && stages_.memory_bytes > 0; ++d)
        bytes_[layer][s] = std::max(bytes_[layer][s], kept_bytes(layer, strategy, d));
    }
}

/// Conversions of tensors that leave a layer, one strategy up to it and another after it.
void LayerProgram::find_boundary_costs() {
  Materialiser materialiser(problem_, at_.conversions);
  const size_t count = strategies_.size();
  changes_.assign(layers_, std::vector<std::vector<Picoseconds>>(count, std::vector<Picoseconds>(count, 0)));
  for (size_t before = 0; before < count; ++before)
    for (size_t after = 0; after < count; ++after) {
      Choices mixed;
      mixed.of.resize(layer_.size());
      mixed.sets.resize(layer_.size());
      for (const Node& node : problem_.program.nodes) take(strategies_[after], node.id, &mixed);
      for (int layer = 0; layer < layers_; ++layer) {
        for (const NodeId node : nodes_[layer]) take(strategies_[before], node, &mixed);
        Picoseconds sum = 0;
        for (const NodeId node : nodes_[layer]) {
          if (first_[node] != layer || last_[node] <= layer) continue;
          if (before != after) mixed.sets[node] = {};
          sum += materialiser.of(mixed, node).cost;
        }
        changes_[layer][before][after] = std::min(forbidden, sum);
      }
    }
}

double LayerProgram::kept_bytes(int layer, const Choices& strategy, int device) const {
  const Program& program = problem_.program;
  double bytes = 0;
  for (const NodeId n : nodes_[layer]) {
    const Node& node = program[n];
    if (problem_.cost.fused(n)) continue;
    const bool sum = node.loop >= 0 && program.next_of(n) >= 0;  // from turn to turn
    bool saved = false;
    for (NodeId consumer : problem_.consumers[n])
      saved = saved || (node.phase == Phase::forward && program[consumer].phase == Phase::backward);
    if (!node.leaf() && !sum && !saved) continue;
    const int form = node.kind == NodeKind::input ? 0
                     : node.leaf()                ? strategy[n]
                                                  : problem_.rules.options[n][strategy[n]].form;
    const double held = problem_.cost.local_bytes(n, problem_.rules.forms[n][form], at_.shares, device);
    bytes += held * (node.loop >= 0 && !sum ? stages_.under_way[size_t(stage_of(layer))] : 1);
  }
  return bytes;
}

int LayerProgram::taken(int layer, int s, double part_of_memory) const {
  if (stages_.memory_bytes == 0) return 0;
  const double part = bytes_[layer][s] / (double(stages_.memory_bytes) * part_of_memory);
  return int(std::min(double(memory_steps) + 1, std::round(part * memory_steps)));
}

int LayerProgram::stage_of(int layer) const {
  return int(std::ranges::upper_bound(stages_.first, layer) - stages_.first.begin()) - 1;
}

bool LayerProgram::begins_stage(int layer) const { return std::ranges::binary_search(stages_.first, layer); }

Choices flat_layerwise_choices(const AtShares& at) {
  std::vector<Choices> strategies{data_parallel_choices(at.problem)};
  for (Choices choices : {sharded_optimizer_choices(at, 2), sharded_optimizer_choices(at, 3),
                          at.cheapest(tensor_parallel_pins(at.problem))})
    if (!choices.empty()) strategies.push_back(std::move(choices));
  return LayerProgram(at, strategies, one_stage(at.problem)).solve();
}

}  // namespace hetsynth::synth
