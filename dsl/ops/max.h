// Maximum over dimensions.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// Maximum over these dimensions (all of them by default: a scalar); `keepdim` leaves them with extent 1. Equal maxima
/// share the gradient evenly.
Tensor max(Operand x, DimList dims = {}, bool keepdim = false);

}  // namespace hetsynth
