// Random reference programs, random right plans of them, and random changes to plans.
#pragma once
#include <random>

#include "tests/support/plan_builder.h"

namespace hetsynth::test {

using Random = std::mt19937_64;

/// Contractions, element-wise functions, reductions, masks, reshapes, slices and padding over a few extents; loss and
/// updates at the end.
Program random_program(Random& random, int operations);

/// Leaves, operations and results placed at random over one or two mesh axes, with the movements that this takes.
SpmdProgram random_plan(Random& random, const Program& reference);

/// One change of the kinds that break plans: a movement dropped, another reduction, table, axis, dimension, operand,
/// split, order, final or claim. The plan keeps its form, or nearly so.
void mutate(Random& random, SpmdProgram& plan, const Program& reference);

/// Any number of the plan replaced by nonsense.
void corrupt(Random& random, SpmdProgram& plan);

}  // namespace hetsynth::test
