// A dimension moved around.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// x moved on by `shift` along `dim`; what leaves at one end comes in at the other: out[i] = x[(i - shift) mod extent].
Tensor roll(Operand x, int64_t shift, int dim);
/// Along several dimensions, each by a shift of its own: roll(x, {-1, -1}, {1, 2}). Throws UserError if there are not
/// as many shifts as dimensions, or a dimension is named twice.
Tensor roll(Operand x, const std::vector<int64_t>& shifts, const DimList& dims);

}  // namespace hetsynth
