#include "synth/baselines/peers/layerwise.h"

#include <algorithm>
#include <cmath>

#include "synth/baselines/peers/layers.h"
#include "synth/schedule/memory_budget.h"

namespace hetsynth::synth {
namespace {

/// Steps that the memory of a device is counted in.
constexpr int memory_steps = 1024;

class LayerProgram {
 public:
  LayerProgram(const AtShares& at, const std::vector<Choices>& strategies)
      : problem_(at.problem),
        at_(at),
        strategies_(strategies),
        layer_(layers_of(at.problem.program)),
        layers_(*std::max_element(layer_.begin(), layer_.end()) + 1),
        materialiser_(at.problem, at.conversions) {
    std::tie(first_, last_) = spans();
    for (size_t d = 0; d < problem_.cluster.devices.size(); ++d)
      if (const int64_t memory = memory_budget(problem_, d); memory > 0 && (memory_ == 0 || memory < memory_))
        memory_ = memory;
  }

  Choices solve() {
    const int count = int(strategies_.size());
    // [strategy][memory left]: the least seconds of the layers so far.
    using Row = std::vector<Picoseconds>;
    std::vector<Row> best(count, Row(memory_steps + 1, forbidden));
    std::vector<std::vector<std::vector<int>>> from(layers_);  // [layer][strategy][memory]: the strategy before
    for (int layer = 0; layer < layers_; ++layer) {
      std::vector<Row> next(count, Row(memory_steps + 1, forbidden));
      from[layer].assign(count, std::vector<int>(memory_steps + 1, -1));
      for (int s = 0; s < count; ++s) {
        const Picoseconds own = layer_cost(layer, s);
        const int taken = layer_memory(layer, s);
        for (int before = 0; before < (layer ? count : 1); ++before) {
          const Picoseconds change = layer ? boundary_cost(layer - 1, before, s) : 0;
          for (int left = 0; left + taken <= memory_steps; ++left) {
            Picoseconds so_far = layer ? best[before][left + taken] : left + taken == memory_steps ? 0 : forbidden;
            Picoseconds sum = std::min(forbidden, so_far + change + own);
            if (sum < next[s][left]) next[s][left] = sum, from[layer][s][left] = before;
          }
        }
      }
      best = std::move(next);
    }
    return traced(best, from);
  }

 private:
  Choices traced(const std::vector<std::vector<Picoseconds>>& best,
                 const std::vector<std::vector<std::vector<int>>>& from) const {
    Picoseconds least = forbidden;
    int s = -1, left = 0;
    for (int end = 0; end < int(best.size()); ++end)
      for (int m = 0; m <= memory_steps; ++m)
        if (best[end][m] < least) least = best[end][m], s = end, left = m;
    if (s < 0) return {};
    std::vector<int> strategy(layers_);
    for (int layer = layers_ - 1; layer >= 0; --layer) {
      strategy[layer] = s;
      const int before = from[layer][s][left];
      left += layer_memory(layer, s);
      s = before;
    }
    Choices out;
    for (const Node& node : problem_.program.nodes) take(strategies_[strategy[layer_[node.id]]], node.id, &out);
    return out;
  }

  /// Appends a node's part of the choices.
  static void take(const Choices& choices, NodeId node, Choices* out) {
    out->of.push_back(choices[node]);
    out->sets.push_back(choices.sets.empty() ? FormSets{} : choices.sets[node]);
  }

  /// First and last layer that makes, reads or keeps each tensor.
  std::pair<std::vector<int>, std::vector<int>> spans() const {
    std::vector<int> first = layer_, last = layer_;
    auto meet = [&](NodeId tensor, NodeId user) {
      first[tensor] = std::min(first[tensor], layer_[user]);
      last[tensor] = std::max(last[tensor], layer_[user]);
    };
    for (const Node& node : problem_.program.nodes)
      for (NodeId input : node.inputs) meet(input, node.id);
    for (const Update& update : problem_.program.updates) meet(update.value, update.target);
    return {first, last};
  }

  /// Operators of the layer, and conversions of tensors that stay in it.
  Picoseconds layer_cost(int layer, int s) {
    Picoseconds sum = 0;
    for (const Node& node : problem_.program.nodes) {
      if (layer_[node.id] != layer) continue;
      if (!node.leaf())
        sum +=
            problem_.cost.operator_cost(node.id, problem_.rules.options[node.id][strategies_[s][node.id]], at_.shares);
      if (first_[node.id] == last_[node.id]) sum += materialiser_.of(strategies_[s], node.id).cost;
    }
    return std::min(forbidden, sum);
  }

  /// Conversions of tensors that leave the layer, one strategy up to it and another after it.
  Picoseconds boundary_cost(int layer, int before, int after) {
    Choices mixed;
    for (const Node& node : problem_.program.nodes)
      take(strategies_[layer_[node.id] <= layer ? before : after], node.id, &mixed);
    Picoseconds sum = 0;
    for (const Node& node : problem_.program.nodes)
      if (first_[node.id] == layer && last_[node.id] > layer) {
        // A set of forms was chosen for consumers of one strategy.
        if (before != after) mixed.sets[node.id] = {};
        sum += materialiser_.of(mixed, node.id).cost;
      }
    return std::min(forbidden, sum);
  }

  /// Steps of memory that the layer holds on to.
  int layer_memory(int layer, int s) const {
    if (memory_ == 0) return 0;
    double most = 0;
    for (int d = 0; d < problem_.cost.device_count(); ++d) {
      double bytes = 0;
      for (const Node& node : problem_.program.nodes) {
        if (layer_[node.id] != layer || problem_.cost.fused(node.id)) continue;
        bool kept = node.leaf();
        for (NodeId consumer : problem_.consumers[node.id])
          kept = kept || (node.phase == Phase::forward && problem_.program[consumer].phase == Phase::backward);
        if (!kept) continue;
        int form = node.kind == NodeKind::input ? 0
                   : node.leaf()                ? strategies_[s][node.id]
                                                : problem_.rules.options[node.id][strategies_[s][node.id]].form;
        bytes += problem_.cost.local_bytes(node.id, problem_.rules.forms[node.id][form], at_.shares, d);
      }
      most = std::max(most, bytes);
    }
    return int(std::min(double(memory_steps) + 1, std::round(most / double(memory_) * memory_steps)));
  }

  const Problem& problem_;
  const AtShares& at_;
  const std::vector<Choices>& strategies_;
  const std::vector<int> layer_;
  const int layers_;
  Materialiser materialiser_;
  std::vector<int> first_, last_;
  int64_t memory_ = 0;  ///< of the smallest device; 0: no limit
};

}  // namespace

Choices layerwise_choices(const AtShares& at, const std::vector<Choices>& strategies) {
  return LayerProgram(at, strategies).solve();
}

}  // namespace hetsynth::synth
