// Tensors side by side along a new dimension.
#pragma once
#include <initializer_list>
#include <vector>

#include "hetsynth/tensor.h"

namespace hetsynth {

/// Tensors of one shape and type along a new dimension `dim` of the result, whose extent is their number; negative
/// positions count from the end of the result's dimensions. Throws UserError for none, and for tensors that differ.
Tensor stack(const std::vector<Tensor>& tensors, int dim = 0,
             std::source_location where = std::source_location::current());
Tensor stack(std::initializer_list<Operand> tensors, int dim = 0);

}  // namespace hetsynth
