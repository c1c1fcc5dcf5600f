// From choices to the SPMD program: instructions in program order, conversions beside the computation that needs them.
#pragma once
#include "synth/problem.h"

namespace hetsynth::synth {

/// Conversions of partial results come right after them (they shrink and are sent early), all others just before their
/// first use. Every compute instruction is checked against `infer_placements`.
SpmdProgram lower(const Problem& problem, const Conversions& conversions, const Shares& shares, const Choices& choices);

}  // namespace hetsynth::synth
