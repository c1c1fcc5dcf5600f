// Absolute value.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// |x|, elementwise; the gradient at 0 is 0.
Tensor abs(Operand x);

}  // namespace hetsynth
