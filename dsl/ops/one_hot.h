// Indices as unit vectors.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// float32 [..., classes] from int32 [...]: 1 at the place that the index names, 0 elsewhere; a row of zeros where the
/// index is not in [0, classes). Throws UserError unless classes is positive.
Tensor one_hot(Operand indices, int64_t classes);

}  // namespace hetsynth
