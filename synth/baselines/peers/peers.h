// Plans of other systems in this planner's space, so that one verifier proves and one cost model prices them all.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dsl/spmd/plan.h"
#include "synth/support/stop_token.h"

namespace hetsynth {

struct PeerPlan {
  std::string name;                               ///< "ZeRO-3"
  std::optional<Plan> plan = {};                  ///< on all devices
  std::string why_not = {};                       ///< without a plan: why there is none
  bool compared = true;                           ///< false: its plan was not made, as that was stopped
  int64_t turns = 1;                              ///< in which the plan takes the step
  int stages = 1;                                 ///< of a pipeline
  std::shared_ptr<const Program> step = nullptr;  ///< in several turns: the step that the plan is of
};

/// A system whose plan is not made, as that was stopped.
PeerPlan stopped_peer(std::string name);

/// Even and speed-proportional data parallelism, ZeRO-1 to 3, Megatron's tensor parallelism with sequence parallelism,
/// HAP's rules, FlexFlow's walk, Galvatron's dynamic programming, each on one mesh axis and the whole step at once.
/// Systems that were made for equal devices may deal out the work evenly or by speed, whichever is faster. `stop` is
/// asked before each.
std::vector<PeerPlan> peer_plans(const Program& reference, const Cluster& cluster, const synth::StopToken& stop = {});

}  // namespace hetsynth
