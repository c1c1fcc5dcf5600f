// Where the largest element stands.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// int32: the index of the largest (smallest) element along `dim`, the first one where several are equal; `keepdim`
/// leaves the dimension with extent 1. No gradient flows.
Tensor argmax(Operand x, int dim, bool keepdim = false);
Tensor argmin(Operand x, int dim, bool keepdim = false);

}  // namespace hetsynth
