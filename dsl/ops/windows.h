// Square windows of an image.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// [batch, height, width, channels] cut into windows of size x size: [batch * windows, size * size, channels], windows
/// row by row (Liu et al. 2021, Swin Transformer). Throws UserError unless size divides height and width.
Tensor window_partition(Operand x, int64_t size);

/// The image of height x width that these windows, [batch * windows, size * size, channels], were cut from.
Tensor window_reverse(Operand windows, int64_t height, int64_t width);

}  // namespace hetsynth
