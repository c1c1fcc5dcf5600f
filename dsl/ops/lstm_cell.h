// One step of a long short-term memory.
#pragma once
#include <string>

#include "hetsynth/tensor.h"

namespace hetsynth {

/// Weights of a cell with gates in the order input, forget, candidate, output. Gates have a dimension of their own, so
/// that the hidden features can be divided among devices.
struct LstmWeights {
  Tensor input;      ///< [inputs, 4, hidden]
  Tensor recurrent;  ///< [hidden, 4, hidden]
  Tensor bias;       ///< [4, hidden]
};
/// Parameters NAME.input, NAME.recurrent and NAME.bias, uniform in +- 1 / sqrt(hidden).
LstmWeights lstm_weights(const std::string& name, int64_t inputs, int64_t hidden,
                         std::source_location where = std::source_location::current());

/// Hidden state and cell state, [batch, hidden] each. Not defined: zeros.
struct LstmState {
  Tensor h;
  Tensor c;
};

/// z = x input + h recurrent + bias; c' = sigmoid(z_f) c + sigmoid(z_i) tanh(z_g); h' = sigmoid(z_o) tanh(c')
/// (Hochreiter and Schmidhuber 1997; Gers et al. 2000). x is [batch, inputs]. Throws UserError if shapes do not fit.
LstmState lstm_cell(Operand x, const LstmState& state, const LstmWeights& weights);

}  // namespace hetsynth
