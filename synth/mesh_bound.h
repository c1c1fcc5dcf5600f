// What a step must cost at least on a mesh of several axes, however the work is shared out. (On one axis:
// synth/share_bound.h.)
#pragma once
#include "synth/problem.h"
#include "synth/stop.h"

namespace hetsynth::synth {

/// A bound for all plans of the mesh at all shares, memory not considered: the search with every instruction at the
/// shares that suit it alone, fractions of granules included.
/// - An operation divides so that all devices that take part end together. Along axes on which devices of one
///   coordinate are alike even shares are the best; where types vary along several axes, what an operation divides
///   counts as cut by the product of all its shares, which is less.
/// - Collectives are cheapest at even shares along their own axis; groups that hold different parts of a tensor end
///   together.
/// - Slices go by memory bandwidth.
/// Message passing is cut off after a while. A bound of `enough` or more need not be told exactly.
Picoseconds bound_over_mesh_shares(const Problem& problem, const Stop& stop, Picoseconds enough = forbidden);

}  // namespace hetsynth::synth
