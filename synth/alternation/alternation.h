// Search and shares in turn: the best plan of one mesh.
#pragma once
#include <optional>
#include <vector>

#include "dsl/spmd/plan.h"
#include "synth/bounds/mesh_bound.h"
#include "synth/schedule/candidate.h"
#include "synth/support/budget.h"

namespace hetsynth::synth {

/// The fastest plan that search at fixed shares, shares by linear programming for the program found, and search again
/// lead to, from several starts; without baselines. On a mesh of several axes: the relaxation's choices at the start
/// that suits them best; unless that is near the bound, the best choices of each start. When the budget is spent: the
/// best so far, or a plan that needs no search; none on several axes.
/// Behind it up to `runners_up` other plans that were met on the way, the fastest first, with the bounds of the mesh.
/// Empty if it is proven that no plan is faster than `to_beat`. Throws UserError with ExitCode::infeasible if none was
/// found that fits into memory. `known`: of the mesh, if it was worked out before. `at_hand`: a plan to fall back on if
/// the time is spent; what is found in time does not depend on it.
std::vector<Plan> best_plans(const Problem& problem, Budget& budget, Picoseconds to_beat = forbidden,
                             std::optional<Relaxation> known = {}, Candidate at_hand = {}, size_t runners_up = 0);

}  // namespace hetsynth::synth
