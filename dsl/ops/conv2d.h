// Two-dimensional convolution.
#pragma once
#include "hetsynth/extent2d.h"
#include "hetsynth/tensor.h"

namespace hetsynth {

struct Conv2d {
  Extent2d stride = 1;
  Extent2d padding = 0;   ///< zeros on either side
  Extent2d dilation = 1;  ///< distance between the kernel's elements
  int64_t groups = 1;     ///< channels and outputs fall into this many parts that do not meet
  /// The image is in so many blocks of rows (split_rows), and so is the result. Where devices share the blocks, as they
  /// may when the batch is too small for them, only boundary rows are communicated.
  int64_t row_blocks = 1;
};

/// x [N, C, H, W], weight [O, C/groups, KH, KW]: [N, O, Y, X] with
///   out[n,o,y,x] = sum over c, i, j of x[n, c, y*stride + i*dilation - padding, ...] * weight[o,c,i,j],
/// x being 0 outside, c running over the channels of o's group (cross-correlation, as everywhere in the field), and
///   Y = floor((H + 2 padding - dilation (KH - 1) - 1) / stride) + 1.
/// Throws UserError for wrong ranks or types, groups that divide channels or outputs with a rest, and a kernel larger
/// than the padded image.
Tensor conv2d(Operand x, Operand weight, Conv2d options = {});

}  // namespace hetsynth
