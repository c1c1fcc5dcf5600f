// Reciprocal of the square root.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// 1 / sqrt(x), elementwise.
Tensor rsqrt(Operand x);

}  // namespace hetsynth
