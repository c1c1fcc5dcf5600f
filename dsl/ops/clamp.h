// Limits to values.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// min(max(x, low), high), elementwise; the gradient is that of x inside of [low, high] and 0 outside. Throws UserError
/// unless low <= high.
Tensor clamp(Operand x, double low, double high);

}  // namespace hetsynth
