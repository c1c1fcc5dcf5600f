// Logarithm of the softmax over one dimension.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// x - log(sum of e^x along `dim`), shifted by the maximum so that nothing overflows.
Tensor log_softmax(Operand x, int dim);

}  // namespace hetsynth
