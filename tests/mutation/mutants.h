// Systematic changes of a plan: every kind of mistake of a catalogue, at every place of the plan where it can be made,
// and changes that leave the plan right.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "dsl/spmd/spmd.h"

namespace hetsynth::mutation {

struct Mutant {
  std::string kind;   ///< "all_reduce dropped"
  std::string place;  ///< "d_w1"
  SpmdProgram plan;
  bool equal = false;  ///< by construction: must be proved
};

/// Which places a kind is tried at.
struct Places {
  int per_kind = std::numeric_limits<int>::max();  ///< mutants of a kind at most
  uint64_t seed = 0;                               ///< order of places if not all are tried
};

/// Calls `take` for every mutant, kind by kind, until it returns false. Plans keep their form except where the kind is
/// about form. What the plan says of its values follows the change where there is a rule for it: a mutant is not to be
/// found by a stale word.
void each_mutant(const Program& reference, const SpmdProgram& plan, const std::function<bool(Mutant)>& take,
                 const Places& places = {});

/// Names of all kinds.
std::vector<std::string> kinds();

}  // namespace hetsynth::mutation
