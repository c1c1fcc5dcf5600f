// Two-dimensional transposed convolution.
#pragma once
#include "hetsynth/extent2d.h"
#include "hetsynth/tensor.h"

namespace hetsynth {

struct ConvTranspose2d {
  Extent2d stride = 1;
  Extent2d padding = 0;         ///< rows and columns left out on either side
  Extent2d output_padding = 0;  ///< rows and columns more at the end, below the stride
  Extent2d dilation = 1;
  int64_t groups = 1;
};

/// The gradient of conv2d by its image, as a layer: x [N, C, H, W], weight [C, O/groups, KH, KW]: [N, O, Y, X] with
///   out[n,o, h*stride + i*dilation - padding, ...] summing x[n,c,h,w] * weight[c,o,i,j], and
///   Y = (H - 1) stride - 2 padding + dilation (KH - 1) + output_padding + 1.
/// Throws UserError as conv2d does, and for an output padding that is not below the stride.
Tensor conv_transpose2d(Operand x, Operand weight, ConvTranspose2d options = {});

}  // namespace hetsynth
