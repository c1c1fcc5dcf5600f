// The stage `differentiate`: from the traced forward pass to the whole training step.
#pragma once
#include "dsl/ir/trace.h"
#include "dsl/transform/turns.h"

namespace hetsynth {

/// Appends backward pass, clipping and optimizer update to the traced program and simplifies it. Of a trace that is
/// evaluated (dsl/ir/evaluation.h) it gives the forward pass. The trace must be the current one. Throws UserError if
/// the model never called `minimize`, or if no parameter influences a loss.
Program differentiate(Trace& trace);

/// In how many turns the trace's settings ask for the step. Throws UserError if that is no number of turns.
TurnCount asked_turns(const Trace& trace);

/// Gradients of a scalar by the given tensors; an empty Tensor where there is no influence. Emits into the current
/// trace.
std::vector<Tensor> gradients(Tensor loss, const std::vector<Tensor>& by);

}  // namespace hetsynth
