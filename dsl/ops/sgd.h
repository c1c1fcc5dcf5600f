// One step of stochastic gradient descent with momentum as elementwise operators; `minimize` puts them together.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// v <- momentum v + scale g; `scale` is the clipping factor or 1.
Tensor sgd_velocity(Operand v, Operand gradient, Operand scale, double momentum);

/// scale g + momentum v: the direction of Nesterov's momentum, v being the new velocity.
Tensor sgd_nesterov(Operand v, Operand gradient, Operand scale, double momentum);

/// p <- p - learning_rate scale v, with v the velocity or, without momentum, the gradient. A learning rate that changes
/// from step to step is a scalar tensor.
Tensor sgd_parameter(Operand p, Operand v, Operand scale, Operand learning_rate);

}  // namespace hetsynth
