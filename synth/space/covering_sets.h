// Sets of forms that serve what consumers of a tensor need.
#pragma once
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "synth/space/rules.h"

namespace hetsynth::synth {

/// Worked out when first asked for: whatever conversions cost, equal needs have the same sets.
class FormSubsets {
 public:
  struct Found {
    std::vector<FormMask> sets;
    std::vector<int> rivals;     ///< set by set: others that meet all the needs it meets, in rising order
    std::vector<size_t> begins;  ///< by set, and behind the last: in `rivals`
  };
  /// Sets of at most `most` forms that would meet fewer needs without any one of their members, smaller ones first.
  const Found& of(const std::vector<FormMask>& needs, int most);

 private:
  std::map<std::pair<int, std::vector<FormMask>>, Found> known_;
};

/// Calls `visit` for the subsets of `forms` with at most `most` members, smaller numbers of members first.
template <typename Visit>
void for_small_subsets(FormMask forms, int most, const Visit& visit) {
  std::vector<int> members;
  for (int f = 0; f < max_forms; ++f)
    if (forms >> f & 1) members.push_back(f);
  auto extend = [&](auto& self, FormMask set, size_t from, int left) -> void {
    if (left == 0) return visit(set);
    for (size_t i = from; i < members.size(); ++i) self(self, set | FormMask(1) << members[i], i + 1, left - 1);
  };
  for (int size = 0; size <= most && size <= int(members.size()); ++size) extend(extend, 0, 0, size);
}

}  // namespace hetsynth::synth
