// Conversion between element types of numbers.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// The tensor as float32, bf16 or fp16, rounded to the nearest; the gradient passes as it is, in float32. A tensor that
/// has the type already is given back.
Tensor cast(Operand x, DType dtype);

}  // namespace hetsynth
