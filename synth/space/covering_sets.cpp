#include "synth/space/covering_sets.h"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace hetsynth::synth {
namespace {

/// Whether a set meets the same needs without one of its members.
bool redundant(FormMask set, const std::vector<FormMask>& needs) {
  FormMask necessary = 0;
  for (FormMask need : needs)
    if (std::has_single_bit(need & set)) necessary |= need & set;
  return necessary != set;
}

/// `meets`: set by set, the needs it meets, so many words of bits each.
void add_rivals(const std::vector<uint64_t>& meets, size_t words, FormSubsets::Found* found) {
  const auto meets_all_of = [&](size_t set, size_t other) {
    const uint64_t *own = meets.data() + set * words, *its = meets.data() + other * words;
    return std::equal(its, its + words, own, [](uint64_t a, uint64_t b) { return (a & ~b) == 0; });
  };
  for (size_t set = 0; set < found->sets.size(); ++set) {
    found->begins.push_back(found->rivals.size());
    for (size_t other = 0; other < found->sets.size(); ++other)
      if (other != set && meets_all_of(other, set)) found->rivals.push_back(int(other));
  }
  found->begins.push_back(found->rivals.size());
}

}  // namespace

const FormSubsets::Found& FormSubsets::of(const std::vector<FormMask>& needs, int most) {
  const auto [it, fresh] = known_.try_emplace({most, needs});
  Found& out = it->second;
  if (!fresh) return out;
  FormMask useful = 0;
  for (FormMask need : needs) useful |= need;
  const size_t words = (needs.size() + 63) / 64;
  std::vector<uint64_t> meets;
  for_small_subsets(useful, most, [&](FormMask set) {
    if (redundant(set, needs)) return;
    out.sets.push_back(set);
    meets.resize(out.sets.size() * words, 0);
    uint64_t* own = meets.data() + (out.sets.size() - 1) * words;
    for (size_t m = 0; m < needs.size(); ++m) own[m / 64] |= uint64_t((needs[m] & set) != 0) << m % 64;
  });
  add_rivals(meets, words, &out);
  return out;
}

}  // namespace hetsynth::synth
