// What a plan of one group of devices costs at each position of the step.
#pragma once
#include "synth/model/problem.h"
#include "synth/stages/device_groups.h"
#include "synth/stages/stage_positions.h"
#include "synth/stages/stage_search.h"

namespace hetsynth::synth {

/// The problem of dividing a step in turns into stages, where every group carries its segment out as `group` says.
/// `analysis`: of the program, for as many axes as groups have.
StageProblem stage_problem(const std::shared_ptr<const Analysis>& analysis, const Cluster& cluster,
                           const DeviceGroups& groups, const SpmdProgram& group, const StagePositions& positions);

}  // namespace hetsynth::synth
