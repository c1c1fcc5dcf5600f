// What a step must cost at least, however the work is shared out.
#pragma once
#include "synth/problem.h"
#include "synth/stop.h"

namespace hetsynth::synth {

/// A bound for all plans of the mesh at all shares, memory not considered: the search with every instruction at the
/// shares that suit it alone, fractions of granules included. An operation divides so that all devices that take part
/// end together; collectives are cheapest at even shares, slices at shares by memory bandwidth. Only for one axis.
/// Exact where devices are alike and granules divide; else what it lacks is the conflict between shares that suit
/// operations and shares that suit collectives.
Picoseconds bound_over_shares(const Problem& problem, const Stop& stop);

}  // namespace hetsynth::synth
