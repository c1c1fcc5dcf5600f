// Definitions of the movements, independent of the rules: what every device has after one.
#pragma once
#include "tests/theorems/family.h"

namespace hetsynth::theorems {

/// What devices have after the movement of a tensor of this shape.
Family moved(World& world, const Instruction& instruction, const Family& before, const Shape& shape);

}  // namespace hetsynth::theorems
