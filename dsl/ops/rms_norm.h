// Root-mean-square normalisation.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// x / sqrt(mean(x^2) + eps) * gain over the last dimension (Zhang and Sennrich 2019); gain is [C].
Tensor rms_norm(Operand x, Operand gain, double eps = 1e-5);

}  // namespace hetsynth
