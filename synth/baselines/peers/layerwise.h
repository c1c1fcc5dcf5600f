// Galvatron's planner (Miao et al., VLDB '23, arXiv 2211.13878): every layer takes one of a few known strategies,
// chosen by dynamic programming under the memory of a device.
#pragma once
#include "synth/baselines/baselines.h"

namespace hetsynth::synth {

/// C(l, s, m) = min over s' { C(l - 1, s', m - memory of layer l under s) + resharding + time of layer l under s }.
/// `strategies`: choices for the whole program, of which each layer takes a part. Memory counts what a layer keeps from
/// step to step and for its backward pass, against the smallest device. Returns choices without nodes if no assignment
/// fits or is possible.
Choices layerwise_choices(const AtShares& at, const std::vector<Choices>& strategies);

}  // namespace hetsynth::synth
