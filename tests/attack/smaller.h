// A failing plan made small: for people.
#pragma once
#include <functional>

#include "tests/attack/grow.h"

namespace hetsynth::attack {

/// Drops movements, computations, results, splits, placements, nodes, tables and axes as long as the case fails.
/// Placements are said anew after each step, so that the rules accept what is left.
Case smaller(Case failing, ProofCache& cache, const std::function<bool(const Case&)>& fails);

}  // namespace hetsynth::attack
