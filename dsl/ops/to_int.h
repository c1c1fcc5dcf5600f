// Numbers as indices.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// The largest whole number not above x, as int32, elementwise. No gradient flows.
Tensor to_int(Operand x);

}  // namespace hetsynth
