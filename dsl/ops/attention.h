// Scaled dot-product attention.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

struct AttentionOptions {
  bool causal = false;  ///< a query sees the keys up to its own position alone; as many keys as queries are needed
  Tensor bias = {};     ///< added to the scores, broadcast against [batch, heads, queries, keys]; -1e9 hides a key
  double scale = 0;     ///< factor of the products of queries and keys; 0: 1 / sqrt(width)
  double dropout = 0;   ///< share of the weights that is dropped
};

/// softmax(query key^T scale + bias) value (Vaswani et al. 2017) for query [batch, queries, heads, width], key [batch,
/// keys, groups, width] and value [batch, keys, groups, value width]: [batch, queries, heads, value width]. Where there
/// are fewer groups than heads, heads / groups neighbouring heads share a key and value (grouped-query attention,
/// Ainslie et al. 2023; multi-query with one group). Throws UserError if the shapes do not fit.
Tensor attention(Operand query, Operand key, Operand value, AttentionOptions options = {});

}  // namespace hetsynth
