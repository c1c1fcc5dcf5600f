// Elements picked along a dimension.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// out[.., i, ..] = x[.., indices[.., i, ..], ..]: of every line along `dim` the elements that the indices name.
/// indices is int32 with the shape of x but for `dim`; an index that is not in [0, x.size(dim)) reads 0.
Tensor gather(Operand x, int dim, Operand indices);

}  // namespace hetsynth
