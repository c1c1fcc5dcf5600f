// Tensors filled with one number.
#pragma once
#include <vector>

#include "hetsynth/tensor.h"

namespace hetsynth {

/// A scalar.
Tensor constant(double value, std::source_location where = std::source_location::current());

/// A float32 tensor of this shape, every element `value`.
Tensor full(const std::vector<int64_t>& shape, double value,
            std::source_location where = std::source_location::current());

}  // namespace hetsynth
