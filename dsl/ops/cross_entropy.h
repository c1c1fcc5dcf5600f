// The loss of classification.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// Mean over all positions of -log softmax(logits)[label]: logits [..., V], int32 labels [...], a scalar. Made of sums
/// and maxima over V, so the vocabulary may be sharded. Throws UserError if the shapes do not fit or the labels are an
/// input that reaches beyond V.
Tensor cross_entropy(Operand logits, Operand labels);

}  // namespace hetsynth
