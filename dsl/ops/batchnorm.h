// Batch normalisation.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// x [N, C, ...], gain and bias [C]: (x - mean) / sqrt(variance + eps) * gain + bias with mean and variance of each
/// channel over the WHOLE batch and all positions, however the batch is divided (Ioffe and Szegedy 2015). Running
/// statistics are kept as states called after the gain, ".running_mean" and ".running_variance" (of the unbiased
/// variance): r = (1 - momentum) r + momentum * (the batch's). Throws UserError if ranks or widths do not fit.
Tensor batchnorm(Operand x, Operand gain, Operand bias, double eps = 1e-5, double momentum = 0.1);

}  // namespace hetsynth
