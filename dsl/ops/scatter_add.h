// Elements added up by index along a dimension.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// out[.., indices[.., i, ..], ..] is the sum of all values[.., i, ..] with that index, 0 where there is none; the
/// result has extent `size` along `dim`. indices is int32 of the shape of values; one that is not in [0, size) adds
/// nothing.
Tensor scatter_add(Operand values, int dim, Operand indices, int64_t size);

}  // namespace hetsynth
