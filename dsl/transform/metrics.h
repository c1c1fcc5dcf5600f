// Scalars that are told beside the loss.
#pragma once
#include "dsl/ir/trace.h"

namespace hetsynth {

/// Computes the metrics of a step from those of its micro-batches, all of them traced, and makes them outputs of the
/// trace's program: their mean, or total / count.
void add_metrics(Trace& trace);

}  // namespace hetsynth
