// Search and shares in turn: the best plan of one mesh.
#pragma once
#include "synth/budget.h"
#include "synth/problem.h"

namespace hetsynth::synth {

/// The fastest plan that search at fixed shares, shares by linear programming for the program found, and search again
/// lead to, from several starts; without baselines. When the budget is spent: the best so far, or a plan that needs no
/// search. Throws UserError with ExitCode::infeasible if none was found that fits into memory.
Plan best_plan(const Problem& problem, Budget& budget);

}  // namespace hetsynth::synth
