// A model whose training step fits on a page of generated text. Its line numbers stand in golden files.
#pragma once
#include "dsl/include/hetsynth/hetsynth.h"

namespace hetsynth::testing_support {

inline void classifier() {
  auto [samples, labels] = synthetic_batch(64, 12, 8);
  Tensor w = parameter("w", {12, 8}, normal(0.1));
  Tensor b = parameter("b", {8}, zeros());
  Tensor logits = matmul(samples, w) + b;
  Tensor loss = cross_entropy(logits, labels);
  minimize(loss, SGD{.learning_rate = 0.1, .momentum = 0.9});
}

}  // namespace hetsynth::testing_support
