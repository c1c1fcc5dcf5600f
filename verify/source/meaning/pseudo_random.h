// Where the check of source looks, besides corners: the same places on every machine, so that a verdict can be
// repeated.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

namespace hetsynth::source {

/// Knuth's linear congruential generator (MMIX), whose high bits are used.
class PseudoRandom {
 public:
  /// Of a block of `count` elements from `begin` on.
  PseudoRandom(int64_t begin, int64_t count) : state_(uint64_t(begin) * 2654435761u + uint64_t(count)) {}

  /// From 0 to `count` - 1, of which there must be some.
  int64_t below(int64_t count) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return int64_t((state_ >> 33) % uint64_t(count));
  }

  /// Keeps at most so many of the elements, in any order (Fisher and Yates 1938).
  template <class T>
  void choose_some(std::vector<T>& elements, size_t most) {
    for (size_t i = elements.size(); i > 1; --i) std::swap(elements[i - 1], elements[size_t(below(int64_t(i)))]);
    if (elements.size() > most) elements.erase(elements.begin() + int64_t(most), elements.end());
  }

 private:
  uint64_t state_;
};

}  // namespace hetsynth::source
