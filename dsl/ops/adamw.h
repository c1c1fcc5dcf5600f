// One step of AdamW as elementwise operators; `minimize` puts them together.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// Scalars that all parameters share within a step.
struct AdamWRates {
  Tensor learning_rate;
  Tensor first_correction;   ///< 1 - beta1^t, t counting steps from 1
  Tensor second_correction;  ///< 1 - beta2^t
};
AdamWRates adamw_rates(Tensor learning_rate, double beta1, double beta2,
                       std::source_location where = std::source_location::current());

/// scale g + weight_decay p: the gradient of a loss with a penalty on the square of p.
Tensor decayed_gradient(Operand p, Operand gradient, Operand scale, double weight_decay);

/// m <- beta m + (1 - beta) scale g, and v <- beta v + (1 - beta) (scale g)^2; `scale` is the clipping factor or 1.
Tensor adamw_first_moment(Operand m, Operand gradient, Operand scale, double beta);
Tensor adamw_second_moment(Operand v, Operand gradient, Operand scale, double beta);

/// p <- p - rate (m / first_correction / (sqrt(v / second_correction) + epsilon) + weight_decay p).
Tensor adamw_parameter(Operand p, Operand m, Operand v, const AdamWRates& rates, double epsilon, double weight_decay);

}  // namespace hetsynth
