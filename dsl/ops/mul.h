// Elementwise product.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// a * b, elementwise; shapes broadcast as in NumPy, numbers are constants. Of two
/// int32 tensors, or one and a whole number, the result is int32, exact up to 2^24. Throws UserError if the shapes do
/// not fit, or if whole numbers meet others.
Tensor mul(Operand a, Operand b);
Tensor operator*(Operand a, Operand b);
/// a = a * b: the variable then stands for the result; other handles of a stay what they were.
Tensor& operator*=(Tensor& a, Operand b);

}  // namespace hetsynth
