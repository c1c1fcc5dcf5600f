// The largest elements along a dimension.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// The k largest elements along a dimension, largest first, and their indices (int32); of equal ones the first comes
/// first.
struct TopK {
  Tensor values;
  Tensor indices;
};

/// Along `dim`, which has extent k in both results. The gradient of the values goes to the elements chosen. Throws
/// UserError unless 1 <= k <= x.size(dim). Dimensions of up to 512 are ranked all at once by comparing every pair;
/// longer ones are searched k times, where elements below -3e38 are never chosen twice in a row but may be out of
/// order.
TopK top_k(Operand x, int64_t k, int dim = -1);

}  // namespace hetsynth
