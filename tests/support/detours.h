// Plans that move values without need: what they compute stays the same.
#pragma once
#include "dsl/spmd/spmd.h"

namespace hetsynth::test {

/// The plan over one axis with an all-to-all to another dimension and back behind whatever is computed in parts and has
/// another dimension, and, behind every third value that all devices compute, a broadcast from one device after the
/// other. Dimensions are cut unevenly, with an empty part where there are four devices or more.
SpmdProgram with_detours(const Program& reference, const SpmdProgram& plan);

}  // namespace hetsynth::test
