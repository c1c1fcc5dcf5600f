// Writes a step in turns as a program with a loop.
#pragma once
#include "dsl/transform/turn_placement.h"

namespace hetsynth {

/// `placed`: what place_in_turns gave for `whole` and this number of turns.
Program program_in_turns(const Program& whole, const PlacedInTurns& placed, TurnCount count);

}  // namespace hetsynth
