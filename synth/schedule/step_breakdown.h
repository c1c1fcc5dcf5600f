// What a plan's step consists of, in a few figures: why one plan loses against another.
#pragma once
#include "dsl/spmd/plan.h"
#include "synth/model/problem.h"

namespace hetsynth::synth {

/// Fills in the step of a trial from a plan on the problem's mesh: its seconds, what of them is computing,
/// communicating and latency (by pricing its collectives on links without a limit to bandwidth), and the step as it
/// unfolds.
void set_figures(const Problem& problem, const Plan& plan, Trial* trial);

}  // namespace hetsynth::synth
