// Scalars that are told beside the loss.
#pragma once
#include "dsl/ir/trace.h"

namespace hetsynth {

/// Computes the metrics of a step from those of its micro-batches, all of them traced, and makes them outputs of the
/// trace's program: their mean, or total / count.
void add_metrics(Trace& trace);

/// Makes the norm of all gradients of a group's loss, before they are clipped, a metric of the trace's program: called
/// "gradient_norm", and of a group with a name "gradient_norm.NAME". Throws UserError if the model has one called so.
void add_gradient_norm(Trace& trace, const Trace::Minimized& minimized, const std::vector<Tensor>& gradients);

}  // namespace hetsynth
