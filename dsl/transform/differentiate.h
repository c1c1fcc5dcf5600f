// The stage `differentiate`: from the traced forward pass to the whole training step.
#pragma once
#include "dsl/ir/trace.h"

namespace hetsynth {

/// Appends backward pass, clipping and optimizer update to the traced program and simplifies it. The trace must be the
/// current one. Throws UserError if the model never called `minimize`, if the loss is no scalar, or if no parameter
/// influences it.
Program differentiate(Trace& trace);

/// Gradients of a scalar by the given tensors; an empty Tensor where there is no influence. Emits into the current
/// trace.
std::vector<Tensor> gradients(Tensor loss, const std::vector<Tensor>& by);

}  // namespace hetsynth
