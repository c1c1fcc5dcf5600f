// Search and shares in turn: the best plan of one mesh.
#pragma once
#include <cmath>
#include <optional>

#include "synth/budget.h"
#include "synth/problem.h"

namespace hetsynth::synth {

/// The fastest plan that search at fixed shares, shares by linear programming for the program found, and search again
/// lead to, from several starts; without baselines. On a mesh of several axes: the fastest of the starts, without
/// linear programming. When the budget is spent: the best so far, or a plan that needs no search; none on several axes.
/// Empty also if it is proven that no plan is faster than `seconds_to_beat`. Throws UserError with ExitCode::infeasible
/// if none was found that fits into memory.
/// `shares_bound`: over all shares of the mesh, if that is known.
std::optional<Plan> best_plan(const Problem& problem, Budget& budget, double seconds_to_beat = HUGE_VAL,
                              std::optional<Picoseconds> shares_bound = {});

}  // namespace hetsynth::synth
