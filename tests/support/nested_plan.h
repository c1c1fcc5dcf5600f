#pragma once
#include "dsl/spmd/spmd.h"

namespace hetsynth::test {

/// A plan over one axis as one over two, "group" and that axis, in which so many groups of devices share what the axis
/// cut: what was cut is cut along both, and every collective becomes one within groups and one between them. The same
/// devices hold and do the same. Expects all-to-alls and stages nowhere.
SpmdProgram nested_plan(const SpmdProgram& flat, int groups);

}  // namespace hetsynth::test
