// How much work planning may do. Work is counted in entries of cost tables looked at, not in seconds: equal input then
// gives equal plans on every machine. A core looks at two to three thousand million of them a second.
#pragma once
#include <cstdint>
#include <limits>

namespace hetsynth {

/// quick: about a second of a core; normal: about twenty seconds; full: until nothing more is to be found.
enum class Effort { quick, normal, full };

}  // namespace hetsynth

namespace hetsynth::synth {

/// Beyond this the best plan so far is taken, once there is one.
constexpr int64_t most_work(Effort effort) {
  if (effort == Effort::full) return std::numeric_limits<int64_t>::max();
  return effort == Effort::quick ? 2'500'000'000 : 50'000'000'000;
}

/// While less than this was done for the plan of a mesh, what seldom leads to anything is tried as well. Three times as
/// much gains nothing in steps and takes a tenth more time; a third of it makes RNNTC on mixed-five.toml 1.7 % slower.
constexpr int64_t patience(Effort effort) {
  if (effort == Effort::full) return std::numeric_limits<int64_t>::max() / 2;
  return effort == Effort::quick ? 0 : 10'000'000;
}

}  // namespace hetsynth::synth
