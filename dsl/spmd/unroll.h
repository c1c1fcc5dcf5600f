// A plan without loops: every turn's instructions of their own, over the unrolled program (dsl/ir/loops.h). For what
// follows instructions one by one.
#pragma once
#include "dsl/spmd/spmd.h"
#include "dsl/transform/unroll.h"

namespace hetsynth {

struct UnrolledPlan {
  Program reference;
  SpmdProgram program;
  std::vector<NodeId> node_of;      ///< by node of `reference`: the one of the program with loops it is a copy of
  std::vector<ValueId> value_of;    ///< by value of `program`: likewise
  std::vector<int> instruction_of;  ///< by instruction of `program`: likewise
  std::vector<int64_t> turn_of;     ///< by instruction of `program`: the turn it is a copy of; -1 outside of loops
  std::vector<NodeId> last_node;    ///< by node of the program with loops: its copy of the last turn
  std::vector<ValueId> last_of;     ///< by value of the plan with loops: its copy of the last turn; -1 if never made
};

/// Expects a plan whose loops are in one piece each (flaw_of in verify/rules/form.h). Without loops: copies.
UnrolledPlan unroll(const Program& reference, const SpmdProgram& program);

}  // namespace hetsynth
