// Mean of squared differences.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// Mean over all elements of (prediction - target)^2, a scalar; both have one shape.
Tensor mean_squared_error(Operand prediction, Operand target);

}  // namespace hetsynth
