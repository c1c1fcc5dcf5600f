// Layer normalisation.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// (x - mean) / sqrt(variance + eps) * gain + bias over the last dimension (Ba, Kiros, Hinton 2016). x is [..., C],
/// gain and bias [C]. Throws UserError if their shapes differ from that.
Tensor layernorm(Operand x, Operand gain, Operand bias, double eps = 1e-5);

}  // namespace hetsynth
