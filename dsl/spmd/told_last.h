// What a step only tells, as its loss, and what it needs.
#pragma once
#include "dsl/spmd/spmd.h"

namespace hetsynth {

/// Returns the program with what follows from collectives of what only tells of the step, which no new parameter or
/// state needs, behind everything else: where all devices would wait for the sum of their losses before they go on to
/// the backward pass, that sum is on its way meanwhile. Instructions in loops keep their places, and so do collectives
/// of what is computed in its place.
SpmdProgram told_last(const Program& reference, SpmdProgram program);

}  // namespace hetsynth
