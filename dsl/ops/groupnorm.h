// Group normalisation.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// x [N, C, ...], gain and bias [C]: (x - mean) / sqrt(variance + eps) * gain + bias with mean and variance of each
/// sample over each of `groups` groups of C / groups channels and all positions (Wu and He 2018). One group is a layer
/// normalisation of images, C groups an instance normalisation. Throws UserError if ranks or widths do not fit or the
/// groups do not divide the channels.
Tensor groupnorm(Operand x, int64_t groups, Operand gain, Operand bias, double eps = 1e-5);

}  // namespace hetsynth
