// A step whose loop has a schedule (dsl/spmd/loop_schedule.h), as it unfolds: every part of every turn by itself.
#pragma once
#include "dsl/spmd/unroll.h"
#include "synth/schedule/timeline.h"

namespace hetsynth {

/// What instructions cost each time that they run, and how devices then carry them out.
struct CostOfOneTurn {
  std::vector<InstructionPrice> prices;
  Unfolding unfolding;
};

/// `prices`, `unfolding`: of the plan with its loop, as price_instructions and unfolding_of give them.
CostOfOneTurn cost_of_one_turn(const Program& reference, const SpmdProgram& program,
                               std::vector<InstructionPrice> prices, Unfolding unfolding);

/// The plan turn by turn, with what its instructions cost there.
struct OverlappedTurns {
  UnrolledPlan flat;
  std::vector<InstructionPrice> prices;  ///< by instruction of `flat`
  Unfolding unfolding;                   ///< of these

  Timeline simulate() const { return hetsynth::simulate(flat.program, prices, unfolding); }
};

/// Written out, for what follows instructions one by one.
OverlappedTurns overlap_turns(const Program& reference, const SpmdProgram& program,
                              const std::vector<InstructionPrice>& prices, const Unfolding& unfolding);

}  // namespace hetsynth
