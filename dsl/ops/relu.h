// Rectified linear unit.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// max(x, 0), elementwise; the gradient at 0 is 0.
Tensor relu(Operand x);

}  // namespace hetsynth
