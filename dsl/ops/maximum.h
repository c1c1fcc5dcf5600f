// Elementwise maximum of two tensors.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// The larger of a and b, elementwise; shapes broadcast as in NumPy. Where both are equal each gets half of the
/// gradient.
Tensor maximum(Operand a, Operand b);

}  // namespace hetsynth
