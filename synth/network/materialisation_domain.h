// The sets of forms that a tensor may be given, as values of a variable of the plan network.
#pragma once
#include <set>
#include <vector>

#include "synth/network/memory_penalties.h"
#include "synth/wcsp/network.h"

namespace hetsynth::synth {

class MaterialisationDomain {
 public:
  MaterialisationDomain(const Problem& problem, const Conversions& conversions, const MemoryPenalties& prices)
      : problem_(problem), conversions_(conversions), prices_(prices) {}

  /// Sets for all consumers alike and, with a price on memory, pairs of sets for the forward phase and for what
  /// follows. `from`: forms that the tensor may be made in; `early`, `late`: what consumers of either ask for; `fixed`:
  /// of `early`, what is always asked for.
  std::vector<FormSets> of(const Node& node, const std::vector<int>& from, const std::set<FormMask>& early,
                           const std::set<FormMask>& late, const std::vector<FormMask>& fixed) const;
  /// What it costs to make the sets, by source.
  void cost(const Node& node, const std::vector<int>& from, const FormSets& sets, Picoseconds* costs) const;

 private:
  std::vector<FormSets> unbeaten(const Node& node, const std::vector<int>& from, const std::set<FormMask>& early,
                                 const std::set<FormMask>& late, const std::vector<FormSets>& sets) const;
  std::vector<FormMask> useful_sets(const Node& node, const std::vector<int>& from, const std::set<FormMask>& masks,
                                    int most = max_forms) const;

  const Problem& problem_;
  const Conversions& conversions_;
  const MemoryPenalties& prices_;
};

}  // namespace hetsynth::synth
