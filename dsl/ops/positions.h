// Where an element stands.
#pragma once
#include <vector>

#include "hetsynth/tensor.h"

namespace hetsynth {

/// int32 tensor of this shape whose elements are their own index along dimension `dim`: global positions, however the
/// tensor is cut.
Tensor positions(const std::vector<int64_t>& shape, int dim,
                 std::source_location where = std::source_location::current());

}  // namespace hetsynth
