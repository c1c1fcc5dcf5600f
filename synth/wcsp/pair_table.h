// A pair's costs in floating point, for message passing.
#pragma once
#include <cstddef>
#include <vector>

#include "synth/support/simd.h"
#include "synth/wcsp/network.h"

namespace hetsynth::synth {

inline Rough rough(Picoseconds cost) { return cost >= forbidden ? rough_forbidden : Rough(cost); }

/// The least of some numbers, one at least.
Rough least_of(const Rough* numbers, size_t count);

/// Some rows and columns of a table. Those that are alike are kept once: many options of an operation differ in nothing
/// that one neighbour could see.
class PairTable {
 public:
  /// `columns`: of the table. `row_values`, `column_values`: those that are kept.
  PairTable(const Table& table, int columns, const std::vector<int>& row_values, const std::vector<int>& column_values);

  /// Of one end (the first indexes rows): by place among the values kept.
  const std::vector<int>& classes(bool first) const { return first ? row_class_ : column_class_; }
  int class_count(bool first) const { return first ? row_count_ : column_count_; }
  /// Costs beside one class of values of an end, by class of the other end's values.
  const Rough* beside(bool first, int value_class) const {
    return (first ? by_row_ : by_column_).data() + size_t(value_class) * padded(size_t(class_count(!first)));
  }

  /// out[y] = min over x of weights[x] + cost[x][y], x being classes of the sending end. `out` has room for padding.
  void minimum_plus(bool from_first, const Rough* weights, Rough* out) const;

 private:
  std::vector<int> row_class_, column_class_;
  int row_count_, column_count_;
  std::vector<Rough> by_row_, by_column_;  ///< one end's classes by the other's, lines padded
};

}  // namespace hetsynth::synth
