// Plans of other systems in this planner's space, so that one verifier proves and one cost model prices them all.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "dsl/spmd/plan.h"

namespace hetsynth {

struct PeerPlan {
  std::string name;          ///< "ZeRO-3"
  std::optional<Plan> plan;  ///< on all devices, one mesh axis
  std::string why_not;       ///< without a plan: why there is none
};

/// Even and speed-proportional data parallelism, ZeRO-1 to 3, Megatron's tensor parallelism with sequence parallelism,
/// HAP's rules, FlexFlow's walk, Galvatron's dynamic programming. Those made for equal devices may deal out the work
/// evenly or by speed, whichever is faster.
std::vector<PeerPlan> peer_plans(const Program& reference, const Cluster& cluster);

}  // namespace hetsynth
