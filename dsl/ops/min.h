// Minimum over dimensions.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// The smallest element over the dimensions, all of them if none is named; `keepdim` leaves them with extent 1. Equal
/// minima share the gradient. It is -max(-x), so devices may share the dimensions.
Tensor min(Operand x, DimList dims = {}, bool keepdim = false);

}  // namespace hetsynth
