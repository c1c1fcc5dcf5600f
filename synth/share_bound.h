// What a step must cost at least, however the work is shared out.
#pragma once
#include "synth/problem.h"
#include "synth/stop.h"

namespace hetsynth::synth {

/// A bound for all plans of the mesh at all shares, memory not considered: the search with every instruction at the
/// shares that suit it alone. An operation divides into whole granules so that it ends as early as it can; gathers and
/// scatters are cheapest where shards differ by a granule at most, slices at shares by memory bandwidth. Only for one
/// axis. Exact where devices are alike; else what it lacks is the conflict between shares that suit some instructions
/// and shares that suit others.
Picoseconds bound_over_shares(const Problem& problem, const Stop& stop);

}  // namespace hetsynth::synth
