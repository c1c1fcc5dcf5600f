// The middle of repeated measurements, which a disturbed one does not move.
#pragma once
#include <algorithm>
#include <vector>

namespace hetsynth {

/// Of at least one value; of an even number of them the upper of the two in the middle.
inline double median(std::vector<double> values) {
  auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace hetsynth
