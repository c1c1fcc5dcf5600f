// Plans of other systems that take the step in turns and stages, in this planner's space: one verifier proves and one
// simulator times them all.
#pragma once
#include <vector>

#include "dsl/transform/turns.h"
#include "synth/baselines/peers/peers.h"

namespace hetsynth {

struct PeerOptions {
  /// The step as a plan takes it, in `turns`; null: at once.
  const Program* in_turns = nullptr;
  TurnCount turns = {};
  /// These turns were asked for: others are not tried. Else those of the plan are, and what is usual.
  bool pinned = false;
  bool stages = true;  ///< false: Galvatron's plan alone, and that without stages, of the step at once unless pinned
  /// Asked between plans: whether those that are left are not made (PeerPlan::compared).
  synth::StopToken stop = {};
};

/// GPipe and one forward, one backward with equal stages, and Galvatron's dynamic programming with stages. `whole`: the
/// step at once.
std::vector<PeerPlan> pipeline_peers(const Program& whole, const Cluster& cluster, const PeerOptions& options = {});

/// These and the ones without stages (peer_plans), which take the step at once or, where that is faster or alone fits,
/// in the plan's turns.
std::vector<PeerPlan> all_peers(const Program& whole, const Cluster& cluster, const PeerOptions& options = {});

}  // namespace hetsynth
