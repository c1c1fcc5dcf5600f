// What generation needs of a plan's instructions, whether the plan is proved or not: generated programs read and write
// memory where instructions say, and nothing looks at addresses when they run.
#pragma once
#include <string>

#include "dsl/spmd/spmd.h"

namespace hetsynth::codegen {

/// Why a rank's program cannot be generated: an instruction reads elements that the rank does not hold, of its operand
/// there is no such dimension, or what it makes is not what its result is said to hold. Empty if it can be. Expects a
/// plan of sound form (flaw_of in verify/rules/form.h); no proved one is refused for what it does.
std::string why_not_generated(const Program& reference, const SpmdProgram& program, int rank);

}  // namespace hetsynth::codegen
