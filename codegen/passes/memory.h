// The stage `plan memory`: where every stored value lies in the arena. Temporaries share space by liveness; parameters
// and states are updated in place where nothing reads the old contents any more.
#pragma once
#include <vector>

#include "codegen/passes/grouping.h"

namespace hetsynth::codegen {

struct MemoryPlan {
  int64_t arena_bytes = 0;
  std::vector<int64_t> offset_bytes;  ///< by ValueId: first element of the value; -1 if never stored
  struct Copy {
    ValueId from, to;
  };
  std::vector<Copy> copies;  ///< at the end of the step: new contents that could not be computed in place
};

/// Redirects updates done in place to their leaf's storage in `layouts`.
MemoryPlan plan_memory(const LocalProgram& program, const std::vector<Group>& groups, Layouts& layouts);

}  // namespace hetsynth::codegen
