// Galvatron with stages (Miao et al., VLDB '23, arXiv 2211.13878; Galvatron-BMW, arXiv 2307.02031): for each number of
// stages and turns, every layer takes one of a few known strategies, by dynamic programming under the memory of a
// device.
#pragma once
#include "synth/baselines/peers/peers.h"
#include "synth/stages/peers/turned_step.h"

namespace hetsynth::synth {

/// Stages are 1 or a power of two, groups of as many devices in the order of the file, with about as many layers each
/// or about as much time, and one forward, one backward. Strategies of a layer, on one axis over a group's devices:
/// data parallelism with all kept whole, with states cut, and with sums of gradients cut, and tensor parallelism; on
/// two axes, the inner one within a host and of 2, 4, ... devices: these along the outer axis and data or tensor
/// parallelism along the inner one. Nothing is computed twice.
PeerPlan layerwise_pipeline(const Program& whole, const Cluster& cluster, const TriedTurns& turns);

}  // namespace hetsynth::synth
