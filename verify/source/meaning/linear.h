// How numbers depend on the counters of a sum, one turn of which is looked at: linear in them, or in an unknown way.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "dsl/spmd/spmd.h"

namespace hetsynth::source {

/// The counters of a sum, where a turn of it has them, and from where to where they go. One that is below its range
/// is none of these: nothing depends on it.
struct Counters {
  std::vector<int64_t> now;
  std::vector<Range> ranges;
};

/// What a number changes by, by the counter that goes one step on.
struct Linear {
  static constexpr size_t most = 8;  ///< counters
  std::array<int64_t, most> by{};
  bool known = true;

  /// The number that is the counter at this position itself. Throws std::out_of_range from position `most` on.
  static Linear counter(size_t position);
  bool constant() const { return known && by == std::array<int64_t, most>{}; }
  void add(const Linear& other, int64_t times);
};

/// How a number that is `value` now changes when it is divided by `by` (rounded down), and how the rest of that
/// division does. Both are unknown where the part of the number that `by` does not divide may leave the range from 0 to
/// below `by`, since then one counter changes both.
Linear quotient(const Linear& number, int64_t value, int64_t by, const Counters& counters);
Linear remainder(const Linear& number, int64_t value, int64_t by, const Counters& counters);

/// Where the counter at a position is next to a change of whether the number is at least `bound`, the others as now.
std::vector<int64_t> next_to_bound(const Linear& number, int64_t value, int64_t bound, size_t position,
                                   const Counters& counters);

}  // namespace hetsynth::source
