// Turns a program with loops into one that computes the same without any.
#pragma once
#include <vector>

#include "dsl/ir/program.h"

namespace hetsynth {

/// The program with a copy of every loop's nodes per turn, named h[0], h[1], ...: what the loops mean.
Program unrolled(const Program& program);

/// The same, with what became of each node.
struct Unrolling {
  Program program;
  /// Holds the copies of a node by turn; a node that runs once has one, and so has a stack, whose copy joins its parts.
  /// The copy of a carry in a later turn is what it takes over.
  std::vector<std::vector<NodeId>> copies;
  std::vector<std::vector<NodeId>> parts;  ///< by node: the parts of a stack, one of each turn; empty for others
};
Unrolling unroll(const Program& program);

}  // namespace hetsynth
