// The cheapest plan by a search that shares nothing with the one under test but the cost of single instructions.
#pragma once
#include "synth/problem.h"

namespace hetsynth::testing_support {

/// Least total cost over all forms of leaves, options of operations and conversions: Dijkstra over (operations done,
/// values that exist).
synth::Picoseconds brute_force_cost(const synth::Problem& problem, const synth::Shares& shares);

}  // namespace hetsynth::testing_support
