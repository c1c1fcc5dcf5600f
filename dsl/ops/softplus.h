// Smooth rectifier.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// log(1 + e^x), elementwise, without overflow.
Tensor softplus(Operand x);

}  // namespace hetsynth
