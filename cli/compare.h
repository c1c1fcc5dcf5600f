// The plans of other systems beside a plan, as people and scripts are shown them.
#pragma once
#include <string>
#include <vector>

#include "synth/baselines/peers/peers.h"

namespace hetsynth::cli {

/// The plan without those of its baselines that are systems of the comparison, which lists them.
Plan without_baselines_of(const std::vector<PeerPlan>& peers, Plan plan);

/// A row per system: predicted step, how many times that of `plan`, turns, stages, memory of the fullest device; or why
/// it has no plan. `turns`: of `plan`.
std::string comparison_text(const Plan& plan, int64_t turns, const std::vector<PeerPlan>& peers);

/// `plan_json`: what plan_json (pipeline/report.h) gives; the same with the list "peers".
std::string with_comparison(const std::string& plan_json, const Plan& plan, const std::vector<PeerPlan>& peers);

}  // namespace hetsynth::cli
