// Elementwise product.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// a * b, elementwise; shapes broadcast as in NumPy, numbers are constants. Throws UserError if the shapes do not fit.
Tensor mul(Operand a, Operand b);
Tensor operator*(Operand a, Operand b);

}  // namespace hetsynth
