// A plan's instructions in the order in which they run where the turns of its loops are taken one by one, by number
// alone: of deep programs in many turns there are a million. dsl/spmd/unroll.h writes them out.
#pragma once
#include <span>
#include <vector>

#include "dsl/spmd/spmd.h"

namespace hetsynth {

struct TurnByTurn {
  struct Run {
    int instruction = 0;
    int64_t turn = -1;   ///< -1: it runs once
    bool joins = false;  ///< what the turns have put into a stack becomes one, behind the last of them
  };
  std::vector<Run> runs;
  /// Values are numbered anew: leaves first, then the results in the order of runs.
  size_t leaves = 0;
  std::vector<ValueId> operands;    ///< of all runs
  std::vector<size_t> begin;        ///< by run, and one more: where its operands begin
  std::vector<ValueId> last_of;     ///< by value of the plan: its copy of the last turn; -1 if it is never made
  std::vector<ValueId> taken_over;  ///< as in SpmdProgram

  ValueId result(size_t run) const { return ValueId(leaves + run); }
  std::span<const ValueId> operands_of(size_t run) const {
    return {operands.data() + begin[run], begin[run + 1] - begin[run]};
  }
};

/// Expects a plan whose loops are in one piece each (flaw_of in verify/rules/form.h).
TurnByTurn turn_by_turn(const Program& reference, const SpmdProgram& program);

}  // namespace hetsynth
