// Elementwise natural logarithm.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// ln x, elementwise.
Tensor log(Operand x);

}  // namespace hetsynth
