// Gaussian error linear unit, the tanh approximation of GPT-2.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), elementwise: the approximation in Hendrycks and Gimpel 2016 that
/// GPT-2 uses.
Tensor gelu(Operand x);

/// x times the standard normal distribution function of x, elementwise: 0.5 x (1 + erf(x / sqrt(2))), as in BERT.
Tensor gelu_erf(Operand x);

}  // namespace hetsynth
