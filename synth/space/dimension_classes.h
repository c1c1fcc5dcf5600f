// Dimension classes: which tensor dimensions and loop factors must be cut by one common boundary table so that shards
// always fit.
#pragma once
#include <string>
#include <vector>

#include "dsl/ir/program.h"

namespace hetsynth::synth {

/// Dimensions and factors tied to each other by the iteration spaces they meet in.
struct DimensionClass {
  std::string name;      ///< unique: "x.0", after the first leaf dimension or factor it holds
  int64_t granules = 1;  ///< indivisible parts: the greatest common divisor of its sizes (12 heads of 64: 12)
};

/// Classes by (node, dimension) and (node, factor); -1 where nothing may be cut: sizes of 1, `whole` factors, factors
/// that cut no operand contiguously.
struct DimensionClasses {
  std::vector<DimensionClass> classes;
  std::vector<std::vector<int>> dims;
  std::vector<std::vector<int>> factors;
};

/// Union-find over all dimensions and splittable factors. A tie that would leave a class with a single granule is not
/// made; that factor is then never split. Classes that occur in the same places of like operations (the hidden
/// dimensions of repeated layers) are one class: by symmetry one table serves them all, since every cost is convex in
/// the shares. `kinds`: as node_kinds gives them. `windows`: dimensions that windows slide over (window_cut_of) are
/// tied to the factor they slide along, so that their parts may overlap, unless that would leave some of them fewer
/// than 16 granules where it had more.
DimensionClasses dimension_classes(const Program& program, const std::vector<int>& kinds, bool windows);

/// The class of the batch: that of the samples of the inputs, their first dimension (the second one where the first
/// numbers turns); -1: none.
int samples_class(const Program& program, const DimensionClasses& classes);

}  // namespace hetsynth::synth
