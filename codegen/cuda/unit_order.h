// The order in which operators become launches: that of the program, but with the operators of an attention nest in one
// place.
#pragma once
#include <set>
#include <vector>

#include "codegen/layout.h"

namespace hetsynth::codegen::cuda {

/// One operator, or all operators of a nest.
struct Unit {
  int op = -1;
  int nest = -1;
};

/// `nests`: the operators of each. Collectives keep the order of the program, which is the same on all ranks. A nest
/// whose operators cannot stand together is left out: its operators are units of their own.
std::vector<Unit> order_units(const LocalProgram& program, const Layouts& layouts,
                              const std::vector<std::set<int>>& nests);

}  // namespace hetsynth::codegen::cuda
