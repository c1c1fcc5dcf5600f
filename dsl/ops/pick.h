// One element per row.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// x[..., labels[...]]: of every row along the last dimension of x [..., V] the element that int32 labels [...] name; 0
/// for a label outside of [0, V).
Tensor pick(Operand x, Operand labels);

}  // namespace hetsynth
