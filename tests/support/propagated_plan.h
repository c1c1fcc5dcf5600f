// Plans in the manner of compilers that propagate shardings: leaves are cut as told, everything else follows.
#pragma once
#include <functional>
#include <vector>

#include "dsl/spmd/spmd.h"

namespace hetsynth::test {

/// A mesh axis and how finely it cuts: dimensions that are no multiple of `units` stay whole.
struct CutAxis {
  std::string name;
  int devices;
  std::vector<int64_t> bounds;  ///< of the units; bounds.back() = units
};

/// `units` dealt out evenly, the first devices taking what is left over.
CutAxis even_axis(const std::string& name, int devices, int64_t units);

/// The dimension in which an axis cuts a leaf; -1: none.
using LeafCut = std::function<int(const Node& leaf, int axis)>;

/// Every node divides the factor by which its operands are cut, where that can be; sums left open are passed on where
/// the body is additive in them and reduced where not; new contents of leaves are brought back to where the leaf lies.
SpmdProgram propagated_plan(const Program& reference, const std::vector<CutAxis>& axes, const LeafCut& cut);

/// Inputs in their first dimension over axis 0; parameters and states of two dimensions or more in their last over
/// axis 1.
int batch_and_columns(const Node& leaf, int axis);

}  // namespace hetsynth::test
