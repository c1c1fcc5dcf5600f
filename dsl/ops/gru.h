// A gated recurrent unit over a whole sequence.
#pragma once
#include "dsl/ops/gru_cell.h"

namespace hetsynth {

/// Hidden states of gru_cell applied to x[:, 0], x[:, 1], ...: [batch, time, hidden]; x is [batch, time, inputs].
/// Inputs are projected for all steps at once, and so is the gradient of the weights computed. Throws UserError if
/// shapes do not fit.
Tensor gru(Operand x, const GruWeights& weights, Tensor initial = {});

}  // namespace hetsynth
