// Sums of rows of a table.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

enum class BagMode { sum, mean };

/// Rows of table [V, C] at int32 [..., n], added up over the last dimension of the indices or averaged: [..., C]. An
/// index that is not in [0, V), such as -1 as padding, adds nothing; the mean still divides by n.
Tensor embedding_bag(Operand table, Operand indices, BagMode mode = BagMode::sum);

}  // namespace hetsynth
