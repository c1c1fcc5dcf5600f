// Loss of class predictions.
#pragma once
#include <optional>

#include "hetsynth/tensor.h"

namespace hetsynth {

struct CrossEntropyOptions {
  double label_smoothing = 0;  ///< this share of the wanted probability is spread evenly over all classes
  std::optional<int64_t> ignored_label = {};  ///< positions with this label count neither in the sum nor in the mean
};

/// logits [..., V] and int32 labels [...]: the mean over all positions of -log softmax(logits)[label], a scalar. With
/// smoothing e (Szegedy et al. 2016) the wanted distribution is 1 - e at the label plus e / V everywhere. If every
/// position is ignored the loss is 0.
Tensor cross_entropy(Operand logits, Operand labels, CrossEntropyOptions options = {});

}  // namespace hetsynth
