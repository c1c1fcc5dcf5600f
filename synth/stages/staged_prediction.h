// What a pipeline takes of its devices: memory by stage, and its plan with the prediction.
#pragma once
#include <vector>

#include "dsl/spmd/plan.h"
#include "synth/model/problem.h"

namespace hetsynth::synth {

/// Of every device, with the turns that the schedule has under way.
std::vector<DevicePrediction> memory_of_stages(const Problem& problem, const SpmdProgram& staged);

/// Of a device: its memory as a part of what a plan may fill; 0 without a limit.
double fullness(const Problem& problem, const std::vector<DevicePrediction>& memory, size_t device);

/// The stage with the device that is furthest above what a plan may fill of its memory; -1 if all fit.
int fullest_stage(const Problem& problem, const std::vector<DevicePrediction>& memory, int group_size);

/// The plan of a pipeline, whose step is simulated. `cluster`: that the problem's devices are of.
Plan pipeline_plan(const Problem& problem, SpmdProgram staged, const std::vector<DevicePrediction>& memory,
                   const Cluster& cluster);

}  // namespace hetsynth::synth
