// Index arithmetic: accesses rewritten for local ranges, composed through views, and turned into addresses.
#pragma once
#include <optional>
#include <vector>

#include "dsl/ir/space.h"

namespace hetsynth::codegen {

/// The same indices for factors within `ranges`, with fewer terms: factors of one value become offsets, and divisions
/// and remainders that do nothing there vanish.
Access normalise(const Access& access, const std::vector<Range>& ranges);

/// `outer` read at the dimensions that `inner` gives: outer's factors are numbers of inner's dimensions. nullopt if it
/// has no closed form.
std::optional<Access> compose(const Access& outer, const Access& inner);

/// Smallest and largest value of an index while the factors run through non-empty ranges.
struct Bounds {
  int64_t lo, hi;
};
/// Of an index that does not depend on the turn of a loop.
Bounds bounds(const DimIndex& index, const std::vector<Range>& ranges);

/// Position in a strided window, as a function of counters that start at 0: constant + what the turn adds + sum of
/// coefficient * counter + other terms.
struct Address {
  struct Term {
    int counter;
    int64_t start;  ///< added to the counter before dividing
    int64_t divide, modulo, stride;
    bool operator==(const Term&) const = default;
  };
  int64_t constant = 0;
  int64_t per_turn = 0;               ///< times the number of the turn of the loop around the operator
  std::vector<int64_t> coefficients;  ///< per counter
  std::vector<Term> others;           ///< ((start + counter) / divide % modulo) * stride
  bool affine() const { return others.empty(); }
  bool operator==(const Address&) const = default;
};

/// Address of an access in a window that begins at global index `origin` and has these strides. Counter f of the
/// address is factor f minus the beginning of its range.
Address address(const Access& access, const std::vector<Range>& ranges, const std::vector<int64_t>& origin,
                const std::vector<int64_t>& strides);

/// The same for one dimension's index.
Address address(const DimIndex& index, const std::vector<Range>& ranges);

}  // namespace hetsynth::codegen
