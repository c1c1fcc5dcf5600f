// Indices as numbers.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// The same values as float32; int32 above 2^24 are rounded. No gradient flows.
Tensor to_float(Operand indices);

}  // namespace hetsynth
