// One step of LAMB as operators; `minimize` puts them together.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// m / first_correction / (sqrt(v / second_correction) + epsilon) + weight_decay p: what Adam would move the parameter
/// by.
Tensor lamb_direction(Operand p, Operand m, Operand v, Operand first_correction, Operand second_correction,
                      double epsilon, double weight_decay);

/// Scalar |p| / |direction| (You et al. 2020), 1 where one of them is 0.
Tensor lamb_trust_ratio(Operand p, Operand direction);

/// p <- p - rate ratio direction.
Tensor lamb_parameter(Operand p, Operand direction, Operand rate, Operand ratio);

}  // namespace hetsynth
