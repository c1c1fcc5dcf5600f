// Parameters that follow one of several losses.
#pragma once
#include <cstdint>
#include <string>

namespace hetsynth {

struct ParameterGroup {
  /// Its loss is told under this name, and messages use it. A model with one call of minimize needs none.
  std::string name = {};
  /// A regular expression (ECMAScript), with a match of which the names of its parameters begin: "generator\\.".
  std::string parameters = {};
  /// 0: it is trained in every step. Else groups take turns, in the order of the calls: each is trained for so many
  /// steps, then the next one.
  int64_t steps = 0;
};

}  // namespace hetsynth
