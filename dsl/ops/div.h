// Elementwise quotient.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// a / b, elementwise; shapes broadcast as in NumPy, numbers are constants. Throws UserError if the shapes do not fit.
Tensor div(Operand a, Operand b);
Tensor operator/(Operand a, Operand b);
/// a = a / b: the variable then stands for the result; other handles of a stay what they were.
Tensor& operator/=(Tensor& a, Operand b);

}  // namespace hetsynth
