// Elementwise maximum of two tensors.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// The larger of a and b, elementwise; shapes broadcast as in NumPy. Where both are equal each gets half of the
/// gradient. Of two int32 tensors, or one and a whole number, the result is int32.
Tensor maximum(Operand a, Operand b);

}  // namespace hetsynth
