// Elements of a dimension in order.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

struct Sorted {
  Tensor values;
  Tensor indices;  ///< int32: where each value stood
};

/// All elements along `dim` in ascending order, or in descending order; of equal ones the first comes first. The
/// gradient of a value goes to the element it was. Every element's rank is counted by comparing it with all others of
/// its line: n^2 comparisons, but no memory for them, and lines may lie on different devices.
Sorted sort(Operand x, int dim = -1, bool descending = false);
/// The indices alone, int32.
Tensor argsort(Operand x, int dim = -1, bool descending = false);

}  // namespace hetsynth
