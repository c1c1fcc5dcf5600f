// Random tensors that are cut unevenly, for tests of collectives.
#pragma once
#include <algorithm>
#include <array>
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

/// A random tensor [outer, first, middle, second, inner] whose cut moves from `first` to `second`, or back.
struct MovedCut {
  MovedCut(std::mt19937_64& random, int members, std::array<int64_t, 5> of, bool from) : extents(of), from_first(from) {
    const auto [outer, first, middle, second, inner] = extents;
    const auto rows = random_bounds(random, members, first), columns = random_bounds(random, members, second);
    const auto whole = random_values(random, outer * first * middle * second * inner);
    for (size_t j = 0; j < static_cast<size_t>(members); ++j) {
      auto by_first = cut(whole, outer, first, middle * second * inner, rows[j], rows[j + 1]);
      auto by_second = cut(whole, outer * first * middle, second, inner, columns[j], columns[j + 1]);
      sources.push_back(from_first ? by_first : by_second);
      expected.push_back(from_first ? by_second : by_first);
      results.emplace_back(expected.back().size(), -7.0f);
    }
    before = from_first ? rows : columns;
    after = from_first ? columns : rows;
  }
  const std::array<int64_t, 5> extents;
  const bool from_first;
  std::vector<int64_t> before, after;                          ///< bounds
  std::vector<std::vector<float>> sources, expected, results;  ///< by member
};

}  // namespace hetsynth::testing
