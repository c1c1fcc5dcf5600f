// Dimensions in another order.
#pragma once
#include <vector>

#include "hetsynth/tensor.h"

namespace hetsynth {

/// Dimension d of the result is dimension order[d] of x. Throws UserError unless `order` names every dimension once.
Tensor transpose(Operand x, const std::vector<int>& order);

}  // namespace hetsynth
