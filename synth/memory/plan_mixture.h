// Two plans at the same shares, mixed: a fast one that takes too much memory and a thrifty one.
#pragma once
#include "synth/network/memory_penalties.h"
#include "synth/schedule/candidate.h"

namespace hetsynth::synth {

/// Where two choices differ, they do so in parts that touch nowhere: layers, mostly. Each part is as in one or in the
/// other, and what it costs and takes there does not depend on the others. So the mixtures in between cost no search:
/// parts become thrifty in order of the time that a byte costs in them.
class PlanMixture {
 public:
  /// `price`: what counts as memory, and on which devices.
  PlanMixture(const Problem& problem, const Conversions& conversions, const Shares& shares, const MemoryPrice& price,
              const Choices& a, const Choices& b);

  /// Mixtures but those of 0 and `count()` thrifty parts are new.
  size_t count() const { return parts_.size(); }
  /// With so many thrifty parts; the more, the more time and the less memory.
  Choices with(size_t thrifty) const;

 private:
  struct Part {
    std::vector<NodeId> nodes;  ///< whose option or sets of forms differ
    double time = 0;            ///< of b, less that of a
    double memory = 0;          ///< the same, at the price
    bool thrifty_in_b() const { return memory == 0 ? time < 0 : memory < 0; }
    /// Time that the thrifty one costs for what it saves; what is faster as well comes first.
    double rate() const;
  };
  void find_parts();

  const Problem& problem_;
  std::vector<int> sources_a_, sources_b_;  ///< by node
  Choices a_, b_;
  std::vector<Part> parts_;  ///< by rate
};

}  // namespace hetsynth::synth
