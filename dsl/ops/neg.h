// Elementwise negation.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// -x, elementwise.
Tensor neg(Operand x);
Tensor operator-(Operand x);

}  // namespace hetsynth
