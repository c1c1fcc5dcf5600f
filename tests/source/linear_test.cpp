// How numbers are said to depend on the counters of a sum, held against going through all of them.
#include "verify/source/meaning/linear.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>

namespace hetsynth::source {
namespace {

/// Calls `visit` for all numbers of the counters, but for those that are below their range, which stay as they are.
void each_point(const Counters& counters, const std::function<void(const std::vector<int64_t>&)>& visit) {
  std::vector<int64_t> at = counters.now;
  const auto loop = [&](auto&& self, size_t c) -> void {
    if (c == at.size()) return visit(at);
    if (counters.now[c] < counters.ranges[c].lo) return self(self, c + 1);
    for (at[c] = counters.ranges[c].lo; at[c] < counters.ranges[c].hi; ++at[c]) self(self, c + 1);
  };
  loop(loop, 0);
}

int64_t value_at(const Linear& number, int64_t value, const Counters& counters, const std::vector<int64_t>& at) {
  for (size_t c = 0; c < at.size(); ++c) value += number.by[c] * (at[c] - counters.now[c]);
  return value;
}

struct Case {
  Counters counters;
  Linear number;
  int64_t value = 0;  ///< where the counters are now
};

/// A number that is at least `least` everywhere. Some counters are below their range, and nothing depends on them.
Case any_case(int64_t least) {
  Case out;
  const int count = *rc::gen::inRange(1, 4);
  for (int c = 0; c < count; ++c) {
    const int64_t lo = *rc::gen::inRange(0, 4), hi = lo + *rc::gen::inRange(1, 7);
    const bool none = *rc::gen::inRange(0, 4) == 0;
    out.counters.ranges.push_back({lo, hi});
    out.counters.now.push_back(none ? -1 : *rc::gen::inRange(lo, hi));
    out.number.by[size_t(c)] = none ? 0 : *rc::gen::element<int64_t>(0, 1, 1, 2, 3, 4, 6, 7, 12, 28, -1, -4);
  }
  int64_t lowest = 0;
  each_point(out.counters, [&](const std::vector<int64_t>& at) {
    lowest = std::min(lowest, value_at(out.number, 0, out.counters, at));
  });
  out.value = least - lowest + *rc::gen::inRange<int64_t>(0, 30);
  return out;
}

RC_GTEST_PROP(LinearNumbers, AreDividedAsTheyAreEverywhere, ()) {
  const Case c = any_case(0);
  const int64_t by = *rc::gen::element<int64_t>(1, 2, 3, 4, 7, 12, 28, 100);
  const Linear whole = quotient(c.number, c.value, by, c.counters), rest = remainder(c.number, c.value, by, c.counters);
  RC_ASSERT(whole.known == rest.known);
  RC_CLASSIFY(whole.known && !whole.constant(), "followed");
  if (!whole.known) return;
  each_point(c.counters, [&](const std::vector<int64_t>& at) {
    const int64_t number = value_at(c.number, c.value, c.counters, at);
    RC_ASSERT(value_at(whole, c.value / by, c.counters, at) == number / by);
    RC_ASSERT(value_at(rest, c.value % by, c.counters, at) == number % by);
  });
}

TEST(LinearNumbers, OfRowsAndColumnsAreFollowed) {
  const Counters counters{{3, 5}, {{0, 10}, {0, 28}}};
  Linear number;
  number.by[0] = 28, number.by[1] = 1;
  EXPECT_EQ(quotient(number, 3 * 28 + 5, 28, counters).by, Linear::counter(0).by);
  EXPECT_EQ(remainder(number, 3 * 28 + 5, 28, counters).by, Linear::counter(1).by);
  EXPECT_FALSE(quotient(number, 3 * 28 + 5, 27, counters).known);
}

/// Both sides of every change are among the points.
RC_GTEST_PROP(LinearNumbers, ChangeNextToTheirBounds, ()) {
  const Case c = any_case(-40);
  const int64_t bound = *rc::gen::inRange<int64_t>(-20, 20);
  for (size_t l = 0; l < c.counters.now.size(); ++l) {
    const std::vector<int64_t> found = next_to_bound(c.number, c.value, bound, l, c.counters);
    const auto inside = [&](int64_t at) { return c.value + c.number.by[l] * (at - c.counters.now[l]) >= bound; };
    for (int64_t at = c.counters.ranges[l].lo; at + 1 < c.counters.ranges[l].hi; ++at) {
      if (inside(at) == inside(at + 1)) continue;
      RC_ASSERT(std::ranges::count(found, at) == 1);
      RC_ASSERT(std::ranges::count(found, at + 1) == 1);
    }
  }
}

}  // namespace
}  // namespace hetsynth::source
