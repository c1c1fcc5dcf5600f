// Which collectives of a plan go together and run beside computing.
#pragma once
#include "dsl/spmd/spmd.h"
#include "synth/model/problem.h"

namespace hetsynth::synth {

/// Returns the program with buckets (dsl/spmd/buckets.h) where all devices are cpu devices on several hosts, and their
/// memories have room for what is then there at once, if need be with no gathers ahead of their readers, or with every
/// collective alone. All other devices carry the program out as it is; GPUs make buckets of their own.
SpmdProgram in_buckets_if_they_fit(const Problem& problem, const Shares& shares, SpmdProgram program);

}  // namespace hetsynth::synth
