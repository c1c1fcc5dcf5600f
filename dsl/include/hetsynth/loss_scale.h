// How the factor of a loss in mixed precision follows the gradients.
#pragma once
#include <cstdint>

namespace hetsynth {

/// Dynamic loss scaling (Micikevicius et al. 2018, section 3.2): the backward pass runs on the loss times a scale that
/// is part of the training state. A step with a gradient that is not finite leaves parameters and optimizer state as
/// they are and multiplies the scale by `backoff`; `interval` steps in a row without one multiply it by `growth`.
struct DynamicLossScale {
  double initial = 65536;
  double growth = 2;
  double backoff = 0.5;
  int64_t interval = 2000;
};

}  // namespace hetsynth
