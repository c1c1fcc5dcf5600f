// Smaller instances of a plan: the same instructions on fewer devices, with small sizes and other boundary tables.
#pragma once
#include <cstdint>
#include <optional>

#include "dsl/spmd/spmd.h"

namespace hetsynth {

struct Instance {
  Program reference;
  SpmdProgram program;
};

/// Sizes change consistently over the whole program: what is one extent (through factors, reshapes, slices at whole
/// multiples) stays one extent; extents with other offsets keep their size. Axes of several devices get 2 or 3; tables
/// are cut unevenly, with an empty share in every third instance. Deterministic in `seed`. Expects a plan without flaws
/// (verify/rules/form.h).
/// With `smallest`, sizes are 2 and 3, so that a very long program is executed fast.
Instance shrink(const Program& reference, const SpmdProgram& program, uint64_t seed, bool smallest = false);

}  // namespace hetsynth
