// Choice between two tensors.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// if_true where condition is not 0, elsewhere if_false; shapes broadcast. The condition is float32 (a comparison) or
/// int32 and gets no gradient. Of two int32 values, or one and a whole number, the result is int32.
Tensor where(Operand condition, Operand if_true, Operand if_false);

}  // namespace hetsynth
