// Turns as a mesh axis: what the turns of a step compute is what as many devices would compute side by side.
#pragma once
#include "dsl/spmd/spmd.h"
#include "dsl/transform/turn_placement.h"

namespace hetsynth {

/// The step in turns as a plan of the whole step, over one axis with a coordinate per turn: samples are sharded, sums
/// over samples are partial, and an all_reduce stands where a sum is complete. A proof of it says that turns change
/// nothing but the order of sums. `placed`: what place_in_turns gave for `whole` and so many turns.
SpmdProgram plan_of_turns(const Program& whole, const PlacedInTurns& placed, int turns);

}  // namespace hetsynth
