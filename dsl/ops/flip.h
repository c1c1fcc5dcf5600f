// A dimension in reverse.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// x with the order of one dimension reversed.
Tensor flip(Operand x, int dim);

}  // namespace hetsynth
