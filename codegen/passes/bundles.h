// Which collectives are carried out together, and beside which computing.
//
// A collective may run from when its operand is there until its result is read, or its operand's place is written to.
// What belongs to one bucket (dsl/spmd/buckets.h) begins with its last member. Operands and results keep their places
// for so long, so only a few bundles are under way at one time.
#pragma once
#include <vector>

#include "codegen/passes/grouping.h"

namespace hetsynth::codegen {

/// Collectives that begin together, where the last of them stands, and are waited for together.
struct Bundle {
  std::vector<int> groups;  ///< one behind the other
  int ends_before = 0;      ///< the group before which it is waited for; the number of groups: at the end of the step

  /// Whether it is a call like any other: one that is waited for at once.
  bool plain() const { return groups.size() == 1 && ends_before == groups.front() + 1; }
};

/// Returns the bundles of all collectives that have a bucket, in order of execution. `bucket_of` has, by value, the
/// bucket of the collective that makes it, and -1 where that is carried out in its place. At most most_under_way
/// bundles are under way at one time.
std::vector<Bundle> bundles(const LocalProgram& program, const std::vector<Group>& groups, const Layouts& layouts,
                            const std::vector<int>& bucket_of);

}  // namespace hetsynth::codegen
