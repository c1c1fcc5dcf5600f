// One step of a gated recurrent unit.
#pragma once
#include <string>

#include "hetsynth/tensor.h"

namespace hetsynth {

/// Weights of a cell with gates in the order reset, update, candidate.
struct GruWeights {
  Tensor input;           ///< [inputs, 3, hidden]
  Tensor recurrent;       ///< [hidden, 3, hidden]
  Tensor bias;            ///< [3, hidden]
  Tensor candidate_bias;  ///< [hidden]: inside of the reset gate
};
/// Parameters NAME.input, NAME.recurrent, NAME.bias and NAME.candidate_bias, uniform in +- 1 / sqrt(hidden).
GruWeights gru_weights(const std::string& name, int64_t inputs, int64_t hidden,
                       std::source_location where = std::source_location::current());

/// With z = x input + bias and u = h recurrent: r = sigmoid(z_r + u_r); s = sigmoid(z_s + u_s);
/// n = tanh(z_n + r (u_n + candidate_bias)); h' = (1 - s) n + s h (Cho et al. 2014; the reset gate behind the product,
/// as cuDNN and PyTorch have it). x is [batch, inputs], h [batch, hidden], or not defined: zeros. Throws UserError if
/// shapes do not fit.
Tensor gru_cell(Operand x, Tensor h, const GruWeights& weights);

}  // namespace hetsynth
