// Plans of other systems that take the step in turns and stages, in this planner's space: one verifier proves and one
// simulator times them all.
#pragma once
#include <vector>

#include "synth/baselines/peers/peers.h"

namespace hetsynth {

/// GPipe and one forward, one backward with equal stages, and Galvatron's dynamic programming with stages. `whole`: the
/// step at once.
std::vector<PeerPlan> pipeline_peers(const Program& whole, const Cluster& cluster);

/// These and the ones without stages (peer_plans), which take the step at once or, where that is faster or alone fits,
/// in the turns of `in_turns`. Null: they do not.
std::vector<PeerPlan> all_peers(const Program& whole, const Program* in_turns, int64_t turns, const Cluster& cluster);

}  // namespace hetsynth
