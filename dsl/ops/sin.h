// Sine.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// sin(x), elementwise, x in radians.
Tensor sin(Operand x);

}  // namespace hetsynth
