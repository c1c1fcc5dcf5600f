// Cosine.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// cos(x), elementwise, x in radians.
Tensor cos(Operand x);

}  // namespace hetsynth
