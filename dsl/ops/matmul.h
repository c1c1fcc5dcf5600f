// Matrix products.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// a [..., m, k] times b [k, n], or times b [..., k, n] with the same leading dimensions: [..., m, n]. Throws UserError
/// if the inner or the leading dimensions disagree.
Tensor matmul(Operand a, Operand b);

}  // namespace hetsynth
