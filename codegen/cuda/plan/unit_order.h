// The order in which operators become launches: that of the program, but with the operators of an attention nest in one
// place, and the collectives of a bucket.
#pragma once
#include <set>
#include <vector>

#include "codegen/passes/layout.h"

namespace hetsynth::codegen::cuda {

/// One operator, all collectives of a bucket, or all operators of a nest.
struct Unit {
  std::vector<int> ops = {};
  int nest = -1;
};

/// `nests`: the operators of each. Collectives keep the order of the program, which is the same on all ranks. A nest
/// whose operators cannot stand together is left out: its operators are units of their own. `buckets`: by operator, -1:
/// none; empty: nowhere any. Those of a bucket stand one behind the other in the program.
std::vector<Unit> order_units(const LocalProgram& program, const Layouts& layouts,
                              const std::vector<std::set<int>>& nests, const std::vector<int>& buckets = {});

}  // namespace hetsynth::codegen::cuda
