// Elementwise exponential.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// e^x, elementwise.
Tensor exp(Operand x);

}  // namespace hetsynth
