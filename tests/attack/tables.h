// Meshes and boundary tables of every form, for one program.
#pragma once
#include "tests/attack/models.h"

namespace hetsynth::attack {

/// One to three axes of one to four devices each; never more than 12 devices.
Mesh random_mesh(Random& random);

/// Tables of every axis for the extents that the program has: even, uneven, with empty shares, in other units, alike
/// under two names, different in each group of another axis, with rows by another axis that are equal, and such as
/// divide the parts of another axis' table.
std::vector<BoundaryTable> random_tables(Random& random, const Program& program, const Mesh& mesh);

}  // namespace hetsynth::attack
