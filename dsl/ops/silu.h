// Sigmoid linear unit.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// x * sigmoid(x), elementwise: SiLU, also called swish (Elfwing et al. 2017).
Tensor silu(Operand x);

}  // namespace hetsynth
