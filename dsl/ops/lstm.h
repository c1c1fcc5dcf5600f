// A long short-term memory over a whole sequence.
#pragma once
#include "dsl/ops/lstm_cell.h"

namespace hetsynth {

/// What lstm_states gives: the hidden state after every step, [batch, time, hidden], and the state after the last.
struct LstmStates {
  Tensor sequence;
  LstmState last;
};

/// Hidden states of lstm_cell applied to x[:, 0], x[:, 1], ...; x is [batch, time, inputs]. A loop over the steps:
/// inputs are projected for all of them before it, and the gradient of the weights is computed in one product behind
/// that of the backward pass. Throws UserError if shapes do not fit.
Tensor lstm(Operand x, const LstmWeights& weights, const LstmState& initial = {});
LstmStates lstm_states(Operand x, const LstmWeights& weights, const LstmState& initial = {});

}  // namespace hetsynth
