// The cheapest assignment of a weighted constraint network, with its proof.
#pragma once
#include "synth/astar.h"

namespace hetsynth::synth {

/// 1. Dead-end elimination.
/// 2. Where joint tables would grow too large: message passing for a bound L; only values that can be part of a
///    solution below L + tau are kept, and tau grows until the best of those costs at most L + tau, which proves it.
/// 3. Bucket elimination and A*. The heuristic never overestimates; it is perfect, and A* expands one state per
///    variable, unless a table still exceeds the limit.
/// When stopped early: the best assignment met, if any, and the proven bound.
SearchResult minimise(const Network& network, const SearchLimits& limits = {});

}  // namespace hetsynth::synth
