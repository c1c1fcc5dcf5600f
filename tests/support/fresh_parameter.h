// Parameters of tests that do not care what they are called.
#pragma once
#include <source_location>
#include <string>

#include "dsl/ir/trace.h"
#include "hetsynth/hetsynth.h"

namespace hetsynth {

/// A parameter that is named after its number in the program: "x0".
inline Tensor fresh_parameter(const Dims& shape, Init init = zeros(),
                              std::source_location where = std::source_location::current()) {
  return parameter("x" + std::to_string(Trace::current().program.nodes.size()), shape, init, where);
}

}  // namespace hetsynth
