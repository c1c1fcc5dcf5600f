// Pipelines of equal stages: GPipe (Huang et al. 2019, arXiv 1811.06965) and one forward, one backward (Narayanan et
// al. 2019, PipeDream; 2021, PipeDream-Flush), as Megatron-LM and DeepSpeed run them.
#pragma once
#include <vector>

#include "synth/baselines/peers/peers.h"
#include "synth/stages/peers/turned_step.h"

namespace hetsynth::synth {

/// For every number of stages that divides the devices and is at most the number of layers: about as many layers a
/// stage, as many devices, in the order of the file, and inside of a stage even data parallelism. Where the first and
/// the last layers share a parameter, what reads it last may lie on the first stage: its gradient would travel in every
/// turn. The fastest over stages and usual turns.
std::vector<PeerPlan> uniform_pipelines(const Cluster& cluster, const TriedTurns& turns);

}  // namespace hetsynth::synth
