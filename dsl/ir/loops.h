// Loops of a program (Program::loops) as a whole: in which order nodes run, what a loop computes anew without need, and
// the same program without loops.
#pragma once
#include <vector>

#include "dsl/ir/program.h"

namespace hetsynth {

/// All nodes in an order in which each comes behind its inputs and the nodes of a loop stand one behind the other;
/// otherwise by number.
std::vector<NodeId> execution_order(const Program& program);

/// Takes nodes out of the loop that depend on nothing in it: they compute the same in every turn.
void hoist_invariants(Program& program, int loop);

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
