// Softmax over one dimension.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// e^x / sum of e^x along `dim`, shifted by the maximum so that nothing overflows.
Tensor softmax(Operand x, int dim);

}  // namespace hetsynth
