// What a step must cost at least on a mesh of one axis, however the work is shared out.
#pragma once
#include "synth/network/search.h"

namespace hetsynth::synth {

/// Its solutions are a bound for all plans of the mesh at all shares, memory not considered: every instruction is at
/// the shares that suit it alone. An operation divides into whole granules so that it ends as early as it can; gathers
/// and scatters are cheapest where shards differ by a granule at most, slices at shares by memory bandwidth. Only for
/// one axis. Exact where devices are alike; else what it lacks is the conflict between shares that suit some
/// instructions and shares that suit others, of one class (there branching helps) and of several.
PlanNetwork network_over_shares(const Problem& problem);

/// That bound made tighter by branch and bound over the shares of one class: how many of its granules the devices
/// of each type hold together. Within a branch every instruction is at the shares of the class that suit it best among
/// those of the branch; the branch with the least bound is divided first. `root`: the bound. Ends
/// when no branch is below `cost`, that of a plan at hand, but for `tolerance` of it, or after `most` parts of branches
/// were looked at. `of_root`: a program that costs no more than the root, if it is known: a part in which it is as
/// cheap need not be searched. `learnt`: by message passing, in the search of the root or another. `of_cost`: shares of
/// the plan at hand, if it is known: branches are divided around them.
Picoseconds tighter_bound_over_shares(const Problem& problem, int class_id, Picoseconds root, Picoseconds cost,
                                      double tolerance, int most, const StopToken& stop, const Choices& of_root = {},
                                      const LearntMessages* learnt = nullptr, const Shares& of_cost = {});

}  // namespace hetsynth::synth
