// What is wrong with a text.
#pragma once
#include <stdexcept>
#include <string>

#include "dsl/ir/program.h"

namespace hetsynth::source {

/// The text differs from the program. `node`: where it is known, what is computed otherwise.
class Differs : public std::runtime_error {
 public:
  Differs(const std::string& what, int line, NodeId node = -1) : std::runtime_error(what), line(line), node(node) {}
  int line;
  NodeId node;
};

}  // namespace hetsynth::source
