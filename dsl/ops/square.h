// Square.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// x * x, elementwise.
Tensor square(Operand x);

}  // namespace hetsynth
