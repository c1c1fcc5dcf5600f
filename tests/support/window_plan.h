// Plans that divide images among devices by rows, columns or samples, with halo exchanges where windows slide over
// them.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "dsl/spmd/spmd.h"

namespace hetsynth::test {

/// A mesh axis that cuts a dimension of images.
struct CutAxis {
  std::string name;
  int dim;
  std::vector<int64_t> bounds;  ///< of extents that are multiples of the last one
};

/// Leaves of these names lie cut in every axis' dimension, all others whole. Each operator is divided along an axis by
/// a factor that cuts its result in the axis' dimension, or that sums over operands which are cut so, if all operands
/// can be had for it: cut, or cut with a halo (window_cut_of). Everything else is computed whole.
SpmdProgram window_plan(const Program& reference, const std::vector<CutAxis>& axes,
                        const std::set<std::string>& cut_leaves);

/// Instructions of this kind.
int count_of(const SpmdProgram& plan, Opcode opcode);

}  // namespace hetsynth::test
