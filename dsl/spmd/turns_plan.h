// Turns as a mesh axis: what the turns of a step compute is what as many devices would compute side by side.
#pragma once
#include "dsl/spmd/spmd.h"
#include "dsl/transform/turns.h"

namespace hetsynth {

/// The step in turns as a plan of the whole step, over one axis with a coordinate per turn: samples are sharded, sums
/// over samples are partial, and an all_reduce stands where a sum is complete. A proof of it says that turns change
/// nothing but the order of sums. `turns`: what take_turns gave for `whole`; it must hold a program.
SpmdProgram plan_of_turns(const Program& whole, const Turns& turns, int count);

}  // namespace hetsynth
