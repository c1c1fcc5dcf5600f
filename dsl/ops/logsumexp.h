// Logarithm of a sum of exponentials.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// log(sum(exp(x))) over the dimensions, all of them if none is named, shifted by the maximum, so that nothing
/// overflows; `keepdim` leaves the dimensions with extent 1. The gradient is softmax over the dimensions.
Tensor logsumexp(Operand x, DimList dims = {}, bool keepdim = false);

}  // namespace hetsynth
