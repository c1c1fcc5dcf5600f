// ZeRO (Rajbhandari et al. 2020, arXiv 1910.02054): data parallelism whose optimizer states, gradients and parameters
// are cut over the devices.
#pragma once
#include "synth/baselines/baselines.h"

namespace hetsynth::synth {

/// Stage 1: states are cut and every device sums up whole gradients; 2: a device keeps its part of a gradient only; 3:
/// parameters are cut too, gathered where the forward pass uses them and again in the backward pass. Tensors without a
/// dimension to cut stay whole.
Choices sharded_optimizer_choices(const AtShares& at, int stage);

}  // namespace hetsynth::synth
