// The cheapest plan by a search that shares nothing with the one under test but the cost of single instructions.
#pragma once
#include "synth/model/problem.h"

namespace hetsynth::testing_support {

/// Least total cost over all forms of leaves, options of operations and conversions: Dijkstra over (operations done,
/// values that exist).
synth::Picoseconds brute_force_cost(const synth::Problem& problem, const synth::Shares& shares);

/// The same by enumeration of all forms of leaves and options of operations, each tensor's conversions by Dijkstra over
/// the sets of its forms: for meshes of two axes, where coexisting forms of all tensors at once are too many. Tensors
/// may have 14 forms. Costs above `bound` are not looked for.
synth::Picoseconds enumerated_cost(const synth::Problem& problem, const synth::Shares& shares,
                                   synth::Picoseconds bound = synth::forbidden - 1);

}  // namespace hetsynth::testing_support
