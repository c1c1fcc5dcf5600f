// Elementwise hyperbolic tangent.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// Hyperbolic tangent of x, elementwise.
Tensor tanh(Operand x);

}  // namespace hetsynth
