// Gradients of slices.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// The sum of two tensors of one shape, each the result of a pad along the same dimension, if one's elements end where
/// the other's begin: joined by concat instead of added, and padded only where something is left. Else no tensor. The
/// gradients of the slices x[:, 0], x[:, 1], ... so become one concat; adding them up would read the whole of x once
/// per slice.
Tensor join_padded(Tensor a, Tensor b);

}  // namespace hetsynth
