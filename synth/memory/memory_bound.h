// What plans that fit into memory must cost at fixed shares.
#pragma once
#include <vector>

#include "synth/network/search.h"
#include "synth/support/budget.h"

namespace hetsynth::synth {

/// From what memory is taken for certain: no plan that fits pays more than the price of a full memory, and none that
/// makes values twice more than making them takes. By price these bounds are concave: the least of what solutions cost,
/// each of which grows ever less.
class MemoryBound {
 public:
  /// All must outlive this. `limits`: at prices.
  MemoryBound(const Problem& problem, const Conversions& conversions, const Shares& shares, const SearchLimits& limits,
              Budget& budget)
      : problem_(problem), conversions_(conversions), shares_(shares), limits_(limits), budget_(budget) {}

  /// `price`: picoseconds for a full memory, as `input` has it, for what is certain. 0 where some solution shows that
  /// the bound is no higher than `worth`.
  Picoseconds at(const SearchInput& input, double price, double worth);
  /// A program whose cost at any price limits the bound there.
  void limit_by(const Choices& choices) { solutions_.push_back(choices); }

 private:
  bool limited_to(double worth, const SearchInput& input, double price) const;

  const Problem& problem_;
  const Conversions& conversions_;
  const Shares& shares_;
  const SearchLimits& limits_;
  Budget& budget_;
  std::vector<Choices> solutions_;
};

}  // namespace hetsynth::synth
