// Zeros around one dimension.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// Dimension `dim` grown by `before` zeros in front and `after` zeros behind. Throws UserError if one is negative.
Tensor pad(Operand x, int dim, int64_t before, int64_t after);

}  // namespace hetsynth
