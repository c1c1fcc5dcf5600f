// A long short-term memory over a whole sequence.
#pragma once
#include "dsl/ops/lstm_cell.h"

namespace hetsynth {

/// What lstm_states gives: the hidden state after every step, [batch, time, hidden], and the state after the last.
struct LstmStates {
  Tensor sequence;
  LstmState last;
};

/// Hidden states of lstm_cell applied to x[:, 0], x[:, 1], ...; x is [batch, time, inputs]. The program holds three
/// operators per step forward and four backward: inputs are projected for all steps at once, and so is the gradient of
/// the weights computed. Throws UserError if shapes do not fit.
Tensor lstm(Operand x, const LstmWeights& weights, const LstmState& initial = {});
LstmStates lstm_states(Operand x, const LstmWeights& weights, const LstmState& initial = {});

}  // namespace hetsynth
