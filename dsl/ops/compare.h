// Comparisons.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// 1 where the relation holds and 0 elsewhere, float32; shapes broadcast. Both sides are float32 or both int32; numbers
/// fit either. No gradient flows. Masks combine by multiplication; the opposite is 1 - mask.
Tensor less(Operand a, Operand b);
Tensor less_equal(Operand a, Operand b);
Tensor greater(Operand a, Operand b);
Tensor greater_equal(Operand a, Operand b);
Tensor equal(Operand a, Operand b);
Tensor not_equal(Operand a, Operand b);
Tensor operator<(Operand a, Operand b);
Tensor operator<=(Operand a, Operand b);
Tensor operator>(Operand a, Operand b);
Tensor operator>=(Operand a, Operand b);
Tensor operator==(Operand a, Operand b);
Tensor operator!=(Operand a, Operand b);

}  // namespace hetsynth
