// The unit of every cost: sums of whole numbers are exact, so that equal plans have equal costs.
#pragma once
#include <cmath>
#include <cstdint>

namespace hetsynth::synth {

using Picoseconds = int64_t;
/// What cannot be chosen costs this much: far above any step, and far enough below the type's limit to be added a few
/// dozen times.
constexpr Picoseconds forbidden = 100'000'000'000'000'000;

inline Picoseconds to_picoseconds(double seconds) {
  const double picoseconds = seconds * 1e12;
  return picoseconds >= double(forbidden) ? forbidden : Picoseconds(std::llround(picoseconds));
}
inline double to_seconds(Picoseconds cost) { return double(cost) * 1e-12; }

}  // namespace hetsynth::synth
