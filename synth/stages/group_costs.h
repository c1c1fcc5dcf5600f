// What a plan of one group of devices costs at each position of the step.
#pragma once
#include "synth/model/problem.h"
#include "synth/stages/device_groups.h"
#include "synth/stages/stage_positions.h"
#include "synth/stages/stage_search.h"

namespace hetsynth::synth {

/// Stages keep attention in blocks, and what it reads: if they made it again, the check of source would take minutes
/// where it takes seconds (gpt.cpp in 4 turns on 2 stages), and the steps of two models on which that was tried would
/// be 12 % shorter and 3 % longer. Of what experts' queues hold, made again in overlapping turns, the check does not
/// know what it is (switch.cpp).
constexpr bool hard_to_check_again = false;

/// The problem of dividing a step in turns into stages, where every group carries its segment out as `group` says.
/// `analysis`: of the program, for as many axes as groups have. `recompute`: whatever is worth it is made again on the
/// way back (recompute_order in synth/memory/recompute.h), which costs time and saves memory.
StageProblem stage_problem(const std::shared_ptr<const Analysis>& analysis, const Cluster& cluster,
                           const DeviceGroups& groups, const SpmdProgram& group, const StagePositions& positions,
                           bool recompute = false);

}  // namespace hetsynth::synth
