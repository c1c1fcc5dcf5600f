// The same program without loops.
#pragma once
#include <vector>

#include "dsl/ir/program.h"

namespace hetsynth {

/// The program with a copy of every loop's nodes per turn, named h[0], h[1], ...: what the loops mean.
Program unrolled(const Program& program);

/// The same, with what became of each node.
struct Unrolling {
  Program program;
  /// By node and turn: its copy, one if it runs once; a carry's of later turns is what it takes over. Of a stack: the
  /// one node that joins its parts.
  std::vector<std::vector<NodeId>> copies;
  std::vector<std::vector<NodeId>> parts;  ///< by node: of a stack, the part that each turn makes; else empty
};
Unrolling unroll(const Program& program);

}  // namespace hetsynth
