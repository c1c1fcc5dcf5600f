// Running sums.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// Along `dim`: sums of all elements up to and with the own; without the own if `exclusive`. Long dimensions are summed
/// in blocks of about the square root of their extent.
Tensor cumsum(Operand x, int dim, bool exclusive = false);

}  // namespace hetsynth
