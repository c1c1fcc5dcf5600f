// Places of a line's elements by size: what sort and top_k are made of.
#pragma once
#include "dsl/ops/support/pointwise.h"

namespace hetsynth {

/// Indices (int32) of the k largest elements along a dimension, largest first; of equal ones the first comes first. By
/// counting, for every element, how many of its line come before it.
Tensor indices_by_rank(Tensor x, int64_t k, int dim);

/// Input 0 [.., n, 1, ..] and input 1 [.., 1, n, ..], the 1s and ns at dimensions dim and dim + 1: how many elements of
/// the line come before each.
PointwiseRule rank_rule(int dim);

}  // namespace hetsynth
