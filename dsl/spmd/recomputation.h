// Values that a plan makes twice, so as not to keep them from the forward phase to the backward phase.
#pragma once
#include <vector>

#include "dsl/spmd/spmd.h"

namespace hetsynth {

/// By value: the one that an instruction made first of the same tensor with the same placements; itself if none did
/// before.
std::vector<ValueId> first_made(const SpmdProgram& program);
/// By value: made after another value of the same tensor with the same placements.
std::vector<char> made_again(const SpmdProgram& program);

}  // namespace hetsynth
