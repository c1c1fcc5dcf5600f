// Losses of yes-or-no predictions.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// Mean over all elements of -(t log p + (1 - t) log(1 - p)) for probabilities p in [0, 1] and targets t in [0, 1] of
/// the same shape; logarithms are not below -100, so that a wrong certainty stays finite.
Tensor binary_cross_entropy(Operand probabilities, Operand targets);

/// The same of p = sigmoid(logits), computed without overflow.
Tensor binary_cross_entropy_with_logits(Operand logits, Operand targets);

}  // namespace hetsynth
