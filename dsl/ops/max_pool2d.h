// Maximum over windows of an image.
#pragma once
#include <optional>

#include "hetsynth/extent2d.h"
#include "hetsynth/tensor.h"

namespace hetsynth {

struct Pool2d {
  std::optional<Extent2d> stride = {};  ///< the window, unless given
  Extent2d padding = 0;                 ///< on either side, at most half of the window
  int64_t row_blocks = 1;               ///< as for conv2d
};

/// x [N, C, H, W]: [N, C, Y, X], out[n,c,y,x] = largest x[n, c, y*stride + i - padding, ...] over a window, positions
/// outside of the image left out. Y = floor((H + 2 padding - window) / stride) + 1. The gradient goes to the first of
/// equal maxima, in row-major order. Throws UserError for wrong ranks or types and a window larger than the padded
/// image.
Tensor max_pool2d(Operand x, Extent2d window, Pool2d options = {});

}  // namespace hetsynth
