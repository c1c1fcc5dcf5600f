// A number per spatial dimension, for operators on images.
#pragma once
#include <concepts>
#include <cstdint>

namespace hetsynth {

/// Height and width, or one number for both: `3`, `{1, 7}`.
struct Extent2d {
  template <std::integral Number>
  Extent2d(Number both) : height(int64_t(both)), width(int64_t(both)) {}
  Extent2d(int64_t height, int64_t width) : height(height), width(width) {}
  int64_t height, width;
  bool operator==(const Extent2d&) const = default;
};

}  // namespace hetsynth
