// Sets of forms for what consumers need, against all subsets.
#include "synth/space/covering_sets.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>

namespace hetsynth::synth {
namespace {

constexpr int forms = 7;

bool meets(FormMask set, FormMask need) { return (set & need) != 0; }

/// Whether `other` meets every need that `set` meets.
bool meets_all_of(FormMask other, FormMask set, const std::vector<FormMask>& needs) {
  return std::ranges::all_of(needs, [&](FormMask need) { return meets(other, need) || !meets(set, need); });
}

RC_GTEST_PROP(FormSubsets, AreThoseWithoutAMemberTooMany, ()) {
  const auto needs = *rc::gen::container<std::vector<FormMask>>(rc::gen::inRange<FormMask>(1, 1 << forms));
  const int most = *rc::gen::inRange(0, forms + 1);
  FormSubsets subsets;
  const FormSubsets::Found& found = subsets.of(needs, most);
  std::vector<FormMask> expected;
  for (FormMask set = 0; set < FormMask(1) << forms; ++set) {
    bool necessary = std::popcount(set) <= most;
    for (int member = 0; member < forms; ++member)
      if (set >> member & 1) necessary = necessary && !meets_all_of(set & ~(FormMask(1) << member), set, needs);
    if (necessary) expected.push_back(set);
  }
  std::vector<FormMask> sets = found.sets;
  RC_ASSERT(std::ranges::is_sorted(sets, {}, [](FormMask set) { return std::popcount(set); }));
  std::ranges::sort(sets);
  RC_ASSERT(sets == expected);
}

RC_GTEST_PROP(FormSubsets, AndTheirRivalsMeetAllThatTheyMeet, ()) {
  // More needs than a word has bits.
  const size_t count = *rc::gen::element<size_t>(0, 1, 5, 63, 64, 65, 130);
  const auto needs = *rc::gen::container<std::vector<FormMask>>(count, rc::gen::inRange<FormMask>(1, 1 << forms));
  FormSubsets subsets;
  const FormSubsets::Found& found = subsets.of(needs, *rc::gen::inRange(1, 4));
  RC_ASSERT(found.begins.size() == found.sets.size() + 1);
  for (size_t set = 0; set < found.sets.size(); ++set) {
    std::vector<int> expected;
    for (size_t other = 0; other < found.sets.size(); ++other)
      if (other != set && meets_all_of(found.sets[other], found.sets[set], needs)) expected.push_back(int(other));
    RC_ASSERT(std::vector<int>(found.rivals.begin() + ptrdiff_t(found.begins[set]),
                               found.rivals.begin() + ptrdiff_t(found.begins[set + 1])) == expected);
  }
}

}  // namespace
}  // namespace hetsynth::synth
