// Logistic sigmoid.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// 1 / (1 + e^-x), elementwise.
Tensor sigmoid(Operand x);

}  // namespace hetsynth
