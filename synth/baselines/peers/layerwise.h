// Galvatron's planner (Miao et al., VLDB '23, arXiv 2211.13878): every layer takes one of a few known strategies,
// chosen by dynamic programming under the memory of a device.
#pragma once
#include "synth/baselines/baselines.h"

namespace hetsynth::synth {

/// The layers of a pipeline's stages.
struct LayerStages {
  std::vector<int> first{0};      ///< by stage: its first layer
  std::vector<int> under_way{1};  ///< by stage: turns whose values it keeps for their backward passes
  int64_t memory_bytes = 0;       ///< of a device; 0: no limit
};
/// Without stages, on the problem's smallest device.
LayerStages one_stage(const Problem& problem);

/// C(l, s, m) = min over s' { C(l - 1, s', m - memory of layer l under s) + resharding + time of layer l under s },
/// where the first layer of each stage finds all of the memory. Memory counts what a layer keeps from step to step,
/// from turn to turn and for its backward pass.
class LayerProgram {
 public:
  /// `strategies`: choices for the whole program, of which each layer takes a part.
  LayerProgram(const AtShares& at, const std::vector<Choices>& strategies, LayerStages stages);
  /// Within such a part of the memory. Returns choices without nodes if no assignment fits or is possible.
  Choices solve(double part_of_memory = 1) const;

 private:
  void find_costs();
  void find_boundary_costs();
  double kept_bytes(int layer, const Choices& strategy, int device) const;
  /// Steps of memory that a layer holds on to.
  int taken(int layer, int s, double part_of_memory) const;
  int stage_of(int layer) const;
  bool begins_stage(int layer) const;
  Choices mixture(const std::vector<int>& strategy_of_layer) const;

  const Problem& problem_;
  const AtShares& at_;
  const std::vector<Choices>& strategies_;
  const LayerStages stages_;
  const std::vector<int> layer_;
  const int layers_;
  std::vector<int> first_, last_;                               ///< by node: layers that make, read or keep it
  std::vector<std::vector<NodeId>> nodes_;                      ///< by layer
  std::vector<std::vector<Picoseconds>> own_;                   ///< [layer][strategy]
  std::vector<std::vector<std::vector<Picoseconds>>> changes_;  ///< [layer][its strategy][that of the next one]
  std::vector<std::vector<double>> bytes_;                      ///< [layer][strategy]: of the fullest device
};

/// Data parallelism, ZeRO-2, ZeRO-3 and tensor parallelism on one axis.
Choices flat_layerwise_choices(const AtShares& at);

}  // namespace hetsynth::synth
