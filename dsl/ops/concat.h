// Tensors one after another.
#pragma once
#include <vector>

#include "hetsynth/tensor.h"

namespace hetsynth {

/// The tensors joined along dimension `dim`. Throws UserError if ranks or other extents differ.
Tensor concat(std::initializer_list<Operand> tensors, int dim);
Tensor concat(const std::vector<Tensor>& tensors, int dim,
              std::source_location where = std::source_location::current());

}  // namespace hetsynth
