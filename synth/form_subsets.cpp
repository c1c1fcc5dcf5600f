#include "synth/form_subsets.h"

#include <bit>

namespace hetsynth::synth {
namespace {

/// Whether a set meets the same needs without one of its members.
bool redundant(FormMask set, const std::vector<FormMask>& needs) {
  FormMask necessary = 0;
  for (FormMask need : needs)
    if (std::has_single_bit(need & set)) necessary |= need & set;
  return necessary != set;
}

}  // namespace

const FormSubsets::Found& FormSubsets::of(const std::vector<FormMask>& needs, int most) {
  const auto [it, fresh] = known_.try_emplace({most, needs});
  Found& out = it->second;
  if (!fresh) return out;
  FormMask useful = 0;
  for (FormMask need : needs) useful |= need;
  out.words = (needs.size() + 63) / 64;
  for_small_subsets(useful, most, [&](FormMask set) {
    if (redundant(set, needs)) return;
    out.sets.push_back(set);
    out.meets.resize(out.sets.size() * out.words, 0);
    uint64_t* meets = out.meets.data() + (out.sets.size() - 1) * out.words;
    for (size_t m = 0; m < needs.size(); ++m) meets[m / 64] |= uint64_t((needs[m] & set) != 0) << m % 64;
  });
  return out;
}

}  // namespace hetsynth::synth
