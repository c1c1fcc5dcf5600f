// One step of stochastic gradient descent with momentum as elementwise operators; `minimize` puts them together.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// v <- momentum v + scale g; `scale` is the clipping factor or 1.
Tensor sgd_velocity(Operand v, Operand gradient, Operand scale, double momentum);

/// p <- p - learning_rate scale v, with v the velocity or, without momentum, the gradient.
Tensor sgd_parameter(Operand p, Operand v, Operand scale, double learning_rate);

}  // namespace hetsynth
