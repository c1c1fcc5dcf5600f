// Elementwise negation.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// -x, elementwise; of int32 int32.
Tensor neg(Operand x);
Tensor operator-(Operand x);

}  // namespace hetsynth
