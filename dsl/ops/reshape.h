// The same elements, in row-major order, under another shape.
#pragma once
#include <vector>

#include "hetsynth/tensor.h"

namespace hetsynth {

/// x under another shape of as many elements; one extent may be -1 and is worked out. Throws UserError if the counts
/// differ.
Tensor reshape(Operand x, const std::vector<int64_t>& shape);

}  // namespace hetsynth
