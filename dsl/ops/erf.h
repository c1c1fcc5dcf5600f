// Error function.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// 2 / sqrt(pi) times the integral of e^(-t^2) from 0 to x, elementwise.
Tensor erf(Operand x);

}  // namespace hetsynth
