#pragma once
#include <vector>

#include "dsl/spmd/spmd.h"

namespace hetsynth::source {

/// By value: the first that is the same of the same leaves, whatever is in memory: one that the same operator is
/// computed from, or the same collective moves, of operands that are the same. What a plan gathers anew, and what it
/// makes again, is this.
std::vector<ValueId> first_same_values(const SpmdProgram& program);

}  // namespace hetsynth::source
