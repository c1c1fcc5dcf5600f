// Loops of a program (Program::loops) as a whole: in which order nodes run, and what a loop computes anew without need.
#pragma once
#include <vector>

#include "dsl/ir/program.h"

namespace hetsynth {

/// All nodes in an order in which each comes behind its inputs and the nodes of a loop stand one behind the other;
/// otherwise by number.
std::vector<NodeId> execution_order(const Program& program);

/// Takes nodes out of the loop that depend on nothing in it: they compute the same in every turn.
void hoist_invariants(Program& program, int loop);

}  // namespace hetsynth
