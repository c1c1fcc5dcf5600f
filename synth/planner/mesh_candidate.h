// A mesh over all devices or some of them that may get a plan, and what is known of it so far.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "synth/bounds/mesh_bound.h"

namespace hetsynth::synth {

class MeshCandidate {
 public:
  /// `least`: no plan is faster for reasons that are known before: a step takes that if all work is spread without
  /// loss. `fills_memory`: see memory_budget. `hidden_weight`: see CostModel::weigh_hidden.
  MeshCandidate(std::shared_ptr<const Analysis> analysis, std::shared_ptr<const Cluster> devices, Mesh mesh,
                const PlanPins& pins, Picoseconds least, bool fills_memory, double hidden_weight)
      : analysis_(std::move(analysis)),
        devices_(std::move(devices)),
        mesh_(std::move(mesh)),
        pins_(&pins),
        least_(least),
        bound_(least),
        fills_memory_(fills_memory),
        hidden_weight_(hidden_weight) {}

  const std::shared_ptr<const Cluster>& devices() const { return devices_; }
  const Mesh& mesh() const { return mesh_; }
  const Rules& rules() const { return analysis_->rules; }
  /// What was known before.
  Picoseconds least() const { return least_; }
  /// Made when it is first asked for.
  const Problem& problem();
  /// No plan of the mesh is faster.
  Picoseconds bound() const { return bound_; }
  /// How well it is known: 0 from the ideal alone, then from more and more message passing.
  int known() const { return known_; }
  /// From the relaxation: there is no more to learn.
  bool relaxed() const { return relaxation_.has_value(); }

  /// Goes on to what is known next. A bound of `enough` or more need not be told exactly.
  void learn(Picoseconds enough, const StopToken& stop);
  /// To be called once, when there is one.
  Relaxation relaxation() && { return *std::move(relaxation_); }
  /// Of many that wait the last forget what only saves time when more is learnt of them, so that what is kept are
  /// networks with no more values than that.
  friend void keep_within(int64_t most_values, std::vector<MeshCandidate*> best_first);

 private:
  std::shared_ptr<const Analysis> analysis_;
  std::shared_ptr<const Cluster> devices_;
  Mesh mesh_;
  const PlanPins* pins_;
  Picoseconds least_, bound_;
  bool fills_memory_;
  double hidden_weight_;
  int known_ = 0;
  bool worth_more_sweeps_ = true;
  std::unique_ptr<Problem> problem_;
  std::unique_ptr<MeshBound> relaxing_;
  std::optional<Relaxation> relaxation_;
};

}  // namespace hetsynth::synth
