// Random zeroing of elements.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// Every element becomes 0 with probability p, the others are divided by 1 - p (Srivastava et al. 2014). Draws depend
/// on the run's seed, this call, the step and the element's global index only, so every plan draws the same. Throws
/// UserError unless 0 <= p < 1.
Tensor dropout(Operand x, double p);

}  // namespace hetsynth
