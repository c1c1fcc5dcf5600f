#include "synth/space/shares.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "dsl/base/error.h"

namespace hetsynth::synth {

int64_t bound_in_part(int64_t granules, const std::vector<int64_t>& shares, size_t at) {
  const auto middle = shares.begin() + std::ptrdiff_t(at);
  const int64_t before = std::accumulate(shares.begin(), middle, int64_t(0));
  const int64_t all = std::accumulate(middle, shares.end(), before);
  HETSYNTH_CHECK(all > 0, "shares must have a positive sum");
  return int64_t((static_cast<__int128>(2) * granules * before + all) / (2 * all));
}

std::vector<int64_t> round_shares(int64_t granules, const std::vector<double>& fractions) {
  double sum = std::accumulate(fractions.begin(), fractions.end(), 0.0);
  HETSYNTH_CHECK(sum > 0, "fractions must have a positive sum");
  std::vector<int64_t> counts;
  std::vector<double> remainders;
  int64_t left = granules;
  for (double fraction : fractions) {
    // A small tolerance, so that 2.9999999 granules of an exact third count as 3.
    double exact = double(granules) * std::max(0.0, fraction) / sum;
    counts.push_back(std::min<int64_t>(left, int64_t(std::floor(exact + 1e-9))));
    remainders.push_back(exact - double(counts.back()));
    left -= counts.back();
  }
  std::vector<int> order(fractions.size());
  std::iota(order.begin(), order.end(), 0);
  auto key = [&](int d) { return std::pair(-std::llround(remainders[d] * 1e9), d); };
  std::sort(order.begin(), order.end(), [&](int a, int b) { return key(a) < key(b); });
  for (size_t i = 0; left > 0; i = (i + 1) % order.size(), --left) ++counts[order[i]];
  return counts;
}

Shares common_shares(const DimensionClasses& classes, const std::vector<std::vector<double>>& fractions) {
  Shares shares;
  for (const std::vector<double>& axis : fractions) {
    shares.emplace_back();
    for (const DimensionClass& c : classes.classes) shares.back().push_back(round_shares(c.granules, axis));
  }
  return shares;
}

}  // namespace hetsynth::synth
