// A range of one dimension.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// Elements [from, to) of dimension `dim`; negative positions count from the end. Throws UserError for an empty range
/// or one outside of the tensor.
Tensor slice(Operand x, int dim, int64_t from, int64_t to);

}  // namespace hetsynth
