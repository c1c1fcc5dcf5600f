// Attention biases by distance.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// T5's bias (Raffel et al. 2020): table [buckets, heads] gives [heads, queries, keys], one learned number per head and
/// bucket of key - query. Small distances have a bucket each, larger ones share buckets that widen as logarithms do up
/// to `max_distance`. Decoders are not bidirectional: keys after the query fall into the first bucket.
struct RelativeBuckets {
  bool bidirectional = true;
  int64_t max_distance = 128;
};
Tensor relative_position_bias(Operand table, int64_t queries, int64_t keys, RelativeBuckets options = {});

/// Swin's bias (Liu et al. 2021): table [(2 size - 1)^2, heads] gives [heads, size^2, size^2], one number per head and
/// offset between two places of a square window.
Tensor window_position_bias(Operand table, int64_t size);

}  // namespace hetsynth
