// Elementwise square root.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// Square root of x, elementwise.
Tensor sqrt(Operand x);

}  // namespace hetsynth
