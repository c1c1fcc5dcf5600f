// Random tensors that are cut unevenly, for tests of collectives.
#pragma once
#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace hetsynth::testing {

/// Shares may be empty.
inline std::vector<int64_t> random_bounds(std::mt19937_64& random, int members, int64_t extent) {
  std::vector<int64_t> bounds{0, extent};
  for (int i = 1; i < members; ++i)
    bounds.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(extent + 1)));
  std::ranges::sort(bounds);
  return bounds;
}

inline std::vector<float> random_values(std::mt19937_64& random, int64_t count) {
  std::vector<float> out(static_cast<size_t>(count));
  std::uniform_real_distribution<float> draw(-1, 1);
  for (float& value : out) value = draw(random);
  return out;
}

/// Part [lo, hi) of the middle dimension of a whole [outer, extent, inner].
inline std::vector<float> cut(const std::vector<float>& whole, int64_t outer, int64_t extent, int64_t inner, int64_t lo,
                              int64_t hi) {
  std::vector<float> out;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t e = lo; e < hi; ++e)
      for (int64_t i = 0; i < inner; ++i) out.push_back(whole[static_cast<size_t>((o * extent + e) * inner + i)]);
  return out;
}

}  // namespace hetsynth::testing
