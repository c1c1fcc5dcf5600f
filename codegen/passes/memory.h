// The stage `plan memory`: where every stored value lies in the arena. Temporaries share space by liveness; parameters
// and states are updated in place where nothing reads the old contents any more.
#pragma once
#include <vector>

#include "codegen/interface/device_program.h"
#include "codegen/passes/bundles.h"
#include "codegen/passes/grouping.h"

namespace hetsynth::codegen {

struct MemoryPlan {
  int64_t arena_bytes = 0;
  std::vector<int64_t> offset_bytes;  ///< by ValueId: first element of the value; -1 if never stored
  struct Copy {
    ValueId from, to;
  };
  std::vector<Copy> copies;     ///< at the end of the step: new contents that could not be computed in place
  std::vector<Bundle> bundles;  ///< collectives, in order; none: each is carried out in its place
};

/// Redirects updates done in place to their leaf's storage in `layouts`. `bucket_of`: see `bundles`; empty: each
/// collective is carried out in its place. `taken_over`: see SpmdProgram. `places`: see generate.
MemoryPlan plan_memory(const LocalProgram& program, const std::vector<Group>& groups, Layouts& layouts,
                       const std::vector<int>& bucket_of = {}, const std::vector<ValueId>& taken_over = {},
                       const LeafPlaces* places = nullptr);

}  // namespace hetsynth::codegen
