// The compilation of a model's evaluation beside, or instead of, that of its training.
#pragma once
#include "cli/pipeline.h"

namespace hetsynth::cli {

/// What an evaluation of the same model is compiled from: the same file, settings and cluster, but for what only
/// training has (micro-batches, turns, pins, a plan). The model is not loaded again.
Compilation evaluation_of(const Compilation& training);

}  // namespace hetsynth::cli
