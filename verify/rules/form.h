// Whether a plan has a meaning at all, before anything is asked of what it computes.
#pragma once
#include <optional>
#include <string>

#include "dsl/spmd/spmd.h"

namespace hetsynth {

/// A flaw that takes the plan its meaning, whatever it should compute.
struct Flaw {
  std::string text;
  int instruction = -1;
  NodeId node = -1;  ///< the tensor concerned, if one is
};

/// Plain checks of form: the mesh, tables monotone and covering, every reference in range, every value defined once and
/// before its use, said to be held in a way that exists; axes divided by their own tables only, factors once;
/// loops in one piece each, with all that they hand on from turn to turn; schedules of loops that take each part of
/// each turn once, and behind what it reads.
std::optional<Flaw> flaw_of(const Program& reference, const SpmdProgram& program);

}  // namespace hetsynth
