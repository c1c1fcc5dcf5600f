// Copies along new or unit dimensions.
#pragma once
#include <vector>

#include "hetsynth/tensor.h"

namespace hetsynth {

/// x, numbers or integers, repeated to this shape, which it must broadcast to as in NumPy.
Tensor broadcast(Operand x, const std::vector<int64_t>& shape);

}  // namespace hetsynth
