// Another division of a plan's own program: what devices that became faster or slower should take of it.
#pragma once
#include <optional>

#include "dsl/spmd/plan.h"

namespace hetsynth {

/// Returns the plan's prediction on a cluster of the same devices at other speeds.
Prediction predicted_on(const Program& reference, const Plan& plan, const Cluster& cluster);

/// The plan with shares that suit the cluster, which has the same devices at other speeds: the same instructions, other
/// boundary tables (so that a proof for all boundaries holds for it as well). Shares are those of the linear program
/// for a fixed program, axis by axis, or the plan's own, if these are faster. None where shares are not free: of
/// pipelines, whose stages hold whole layers, of tables that differ between groups, and where no shares fit into
/// memory.
std::optional<Plan> with_new_shares(const Program& reference, const Plan& plan, const Cluster& cluster);

/// Whether both programs are the same but for the bounds of their tables.
bool same_but_for_bounds(const SpmdProgram& a, const SpmdProgram& b);

}  // namespace hetsynth
