// Hides the future from attention scores.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// Attention scores [..., query, key]: where the key comes after the query the score becomes -1e9, so that softmax
/// gives it 0. Both positions are global, however the tensor is cut. Throws UserError unless the last two extents are
/// equal.
Tensor causal_mask(Operand scores);

}  // namespace hetsynth
