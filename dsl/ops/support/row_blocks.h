// Windows over an image in blocks of rows: each block with the rows of its neighbours that windows reach into. With the
// blocks cut over devices, only these boundary rows are communicated (the halo exchange of stencil codes).
#pragma once
#include <functional>

#include "dsl/ops/support/window.h"

namespace hetsynth {

/// Throws UserError unless the batch of `image` can be so many blocks (split_rows).
void require_row_blocks(const char* tag, Tensor image, int64_t blocks, const std::vector<Tensor>& arguments);

/// Calls `compute` with the image and the call's windows; or, if the image is in more than one block, with every block
/// between the boundary rows of its neighbours, [blocks * N, C, above + rows + below, W], and windows without vertical
/// padding. Rows beyond the image are `outside`. The result is in as many blocks. Throws UserError with the place of
/// the call unless blocks are whole strides, the result has a row per stride, and windows reach no further than into
/// the neighbouring block.
Tensor over_row_blocks(const WindowCall& call, int64_t blocks, Tensor image, const std::vector<Tensor>& arguments,
                       double outside, const std::function<Tensor(Tensor image, const WindowCall& call)>& compute);

}  // namespace hetsynth
