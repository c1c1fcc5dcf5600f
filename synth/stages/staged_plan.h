// A plan of one group of devices, spread over the stages of a pipeline: each stage is a group of as many devices and
// carries out the plan's instructions for its segments of the step.
#pragma once
#include <vector>

#include "dsl/spmd/spmd.h"
#include "synth/stages/stage_positions.h"

namespace hetsynth::synth {

/// How positions are divided over stages.
struct StageCuts {
  std::vector<int> ends;   ///< by segment: the position behind its last one
  std::vector<int> stage;  ///< by segment: who computes it; a stage may have several segments
  int segments() const { return int(ends.size()); }
  int stages() const;
  int segment_of(int position) const;
};

/// Spreads a plan over the mesh of stages x the mesh of `group`, which makes no value twice. What another stage reads
/// is sent to it once, by each device to the one in its place. The loop over samples gets a schedule, still turn by
/// turn, of one part per segment and direction (forward passes in the order of segments, backward passes in the
/// opposite one, those of the last segment together), and behind each of these one with what is sent of it.
SpmdProgram staged_plan(const Program& in_turns, const SpmdProgram& group, const StagePositions& positions,
                        const StageCuts& cuts);

}  // namespace hetsynth::synth
