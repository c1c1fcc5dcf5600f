// Powers.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// base to the power of exponent, elementwise; shapes broadcast. Small whole exponents are products, so the base may be
/// negative; other powers of a negative base are NaN.
Tensor pow(Operand base, Operand exponent);

}  // namespace hetsynth
