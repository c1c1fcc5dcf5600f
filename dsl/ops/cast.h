// Conversion between element types of numbers.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// Element types, as models name them.
inline constexpr DType f32 = DType(0);
inline constexpr DType bf16 = DType(2);

/// The tensor as float32 or bf16, rounded to the nearest; the gradient passes as it is, in float32. A tensor that has
/// the type already is given back.
Tensor cast(Operand x, DType dtype);

}  // namespace hetsynth
