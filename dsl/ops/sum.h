// Sum over dimensions.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// Sum over these dimensions (all of them by default: a scalar); `keepdim` leaves them with extent 1.
Tensor sum(Operand x, DimList dims = {}, bool keepdim = false);

}  // namespace hetsynth
