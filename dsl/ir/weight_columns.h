// Columns of activations that are multiplied with weights: what a device may leave out of its products when it is
// slower than planned (docs/runtime.md, "Leaving columns out").
//
//   y = x[b, c] w[c, j]         sums over c: column c of x meets row c of w
//   d_x = d_y[b, j] w[c, j]     has column c as part of its result
//   d_w = x[b, c] d_y[b, j]     has row c as part of its result
//
// A step without column c is that of a model that does not see it: y lacks its terms, and the gradients by it are 0.
#pragma once
#include <map>
#include <vector>

#include "dsl/ir/program.h"

namespace hetsynth {

/// Of a product: the factor that runs over columns, and which columns these are.
struct ColumnUse {
  int factor = -1;
  int set = 0;        ///< in WeightColumns::extents
  int weight = -1;    ///< operand that is made of parameters alone; -1: none is
  bool sums = false;  ///< it adds the columns up, in the forward pass
};

struct WeightColumns {
  /// By set, how many columns there are. Products of one activation share its columns (queries, keys and values), and
  /// so do activations that meet one weight.
  std::vector<int64_t> extents;
  std::map<NodeId, ColumnUse> uses;  ///< products that are not named take no columns of a set
};

/// Found from spaces and bodies alone. Of several dimensions that a product sums over it is the longest.
WeightColumns weight_columns(const Program& program);

}  // namespace hetsynth
