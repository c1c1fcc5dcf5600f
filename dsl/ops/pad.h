// Values around one dimension.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// What stands beyond the edges.
enum class PadMode {
  reflect,    ///< the mirror image, without the edge itself: 3 2 | 1 2 3 | 2 1
  replicate,  ///< the edge: 1 1 | 1 2 3 | 3 3
  circular,   ///< the other end: 2 3 | 1 2 3 | 1 2
};

/// Dimension `dim` grown by `before` elements in front and `after` behind, all of them `value`. Throws UserError if one
/// is negative.
Tensor pad(Operand x, int dim, int64_t before, int64_t after, double value = 0);
/// Throws UserError if the dimension has fewer elements than the mode has to repeat.
Tensor pad(Operand x, int dim, int64_t before, int64_t after, PadMode mode);

}  // namespace hetsynth
