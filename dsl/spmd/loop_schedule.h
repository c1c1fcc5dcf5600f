// Loops whose turns overlap, as the stages of a pipeline need it: while one device computes a turn, others are at the
// turns before and after. A schedule says in which order the parts of all turns are taken (Huang et al. 2019, GPipe;
// Narayanan et al. 2019, PipeDream: one forward, one backward). Every device goes through that order and passes over
// what it takes no part in: as the order is one for all, no two devices can wait for each other.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "dsl/spmd/spmd.h"

namespace hetsynth {

/// The loop's schedule; nothing if its turns run one after the other.
const LoopSchedule* schedule_of(const SpmdProgram& program, int loop);

/// Where and why a schedule is none.
struct ScheduleFlaw {
  std::string text;
  int instruction = -1;
};

/// Checks that the parts are the loop's instructions, that each part of each turn is taken once, and behind what it
/// reads: what the same turn made, and what the turn before handed on. A part takes its turns in order, so that what is
/// kept for several turns can lie in a ring of slots. Expects a loop in one piece; indices are checked.
std::optional<ScheduleFlaw> flaw_of(const Program& reference, const SpmdProgram& program, const LoopSchedule& schedule);

/// The parts' first instructions, and the end of the last one. Expects a schedule without flaw.
std::vector<int> part_bounds(const LoopSchedule& schedule, const LoopSpan& span);

/// The order in which a loop takes its instructions: that of its schedule, or turn by turn as one part.
LoopSchedule schedule_or_turns(const Program& reference, const SpmdProgram& program, const LoopSpan& span);

}  // namespace hetsynth
