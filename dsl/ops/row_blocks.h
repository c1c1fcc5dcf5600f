// Images in blocks of rows, which devices can share.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// An image [N, C, H, W] as `blocks` blocks of H / blocks rows below each other in the batch: [blocks * N, C, H /
/// blocks, W], all images' first blocks first. Elementwise operators and norms over batch and rows do not see the
/// difference; convolutions and pools with `.row_blocks` see the rows of neighbouring blocks. Throws UserError unless
/// the blocks divide the height.
Tensor split_rows(Operand x, int64_t blocks);

/// The reverse: [blocks * N, C, Y, X] to [N, C, blocks * Y, X].
Tensor join_rows(Operand x, int64_t blocks);

}  // namespace hetsynth
