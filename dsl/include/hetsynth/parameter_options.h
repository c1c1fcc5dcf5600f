// How a parameter is trained, where it is not trained as all others are.
#pragma once
#include <optional>

namespace hetsynth {

struct ParameterOptions {
  /// The optimizer's learning rate is multiplied by this: layers of a pre-trained network that move less than a new
  /// one.
  double learning_rate_scale = 1;
  /// Instead of the optimizer's weight decay, and whatever the parameter's rank; not set: the optimizer's, which is of
  /// parameters of rank 2 and more.
  std::optional<double> weight_decay = {};
  /// false: it stays as it starts, or as a checkpoint has it. It gets no gradient and no optimizer state.
  bool trainable = true;
};

}  // namespace hetsynth
