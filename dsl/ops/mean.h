// Mean over dimensions.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// Arithmetic mean over these dimensions (all of them by default: a scalar); `keepdim` leaves them with extent 1. A sum
/// times the known 1/n.
Tensor mean(Operand x, DimList dims = {}, bool keepdim = false);

}  // namespace hetsynth
