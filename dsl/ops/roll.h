// A dimension moved around.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// x moved on by `shift` along `dim`; what leaves at one end comes in at the other: out[i] = x[(i - shift) mod extent].
Tensor roll(Operand x, int64_t shift, int dim);

}  // namespace hetsynth
