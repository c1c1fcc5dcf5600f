// How numbers depend on the counters of a sum, one turn of which is looked at: linear in them, or in an unknown way.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "dsl/spmd/spmd.h"

namespace hetsynth::source {

/// The counters of a sum, where a turn of it has them, and from where to where they go.
struct Counters {
  std::vector<int64_t> now;
  std::vector<Range> ranges;
};

/// What a number changes by, by the counter that goes one step on.
struct Linear {
  static constexpr size_t most = 8;  ///< counters
  std::array<int64_t, most> by{};
  bool known = true;

  /// Of the counter at a position, below `most`.
  static Linear counter(size_t position);
  bool constant() const { return known && by == std::array<int64_t, most>{}; }
  void add(const Linear& other, int64_t times);
};

/// Of a number that is `value` now, divided by `by` (rounded down), and the rest of it: unknown where what the division
/// leaves does not stay below `by` wherever the counters are.
Linear quotient(const Linear& number, int64_t value, int64_t by, const Counters& counters);
Linear remainder(const Linear& number, int64_t value, int64_t by, const Counters& counters);

/// Where the counter at a position is next to a change of whether the number is at least `bound`, the others as now.
std::vector<int64_t> next_to_bound(const Linear& number, int64_t value, int64_t bound, size_t position,
                                   const Counters& counters);

}  // namespace hetsynth::source
