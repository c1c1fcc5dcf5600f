// One-dimensional convolution.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

struct Conv1d {
  int64_t stride = 1;
  int64_t padding = 0;   ///< zeros on either side
  int64_t dilation = 1;  ///< distance between the kernel's elements
  int64_t groups = 1;    ///< channels and outputs fall into this many parts that do not meet
};

/// x [N, C, L], weight [O, C/groups, K]: [N, O, Y] with
///   out[n,o,y] = sum over c, i of x[n, c, y*stride + i*dilation - padding] * weight[o,c,i],
/// as conv2d over images that are one row high. Throws UserError as conv2d does.
Tensor conv1d(Operand x, Operand weight, Conv1d options = {});

}  // namespace hetsynth
