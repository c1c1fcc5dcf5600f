// Rectifier that lets a share of negative values through.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// x where x > 0, elsewhere slope * x.
Tensor leaky_relu(Operand x, double slope = 0.01);

}  // namespace hetsynth
