// Running products.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// Along `dim`: products of all elements up to and with the own. In as many rounds as the extent has binary digits
/// (Hillis and Steele 1986): each multiplies every element by that 1, 2, 4, ... places before it. The gradient is that
/// of these products, and right where elements are 0.
Tensor cumprod(Operand x, int dim);

}  // namespace hetsynth
