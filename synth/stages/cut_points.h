// Where a step in turns can be cut into stages.
#pragma once
#include <set>
#include <vector>

#include "synth/schedule/price.h"
#include "synth/stages/stage_positions.h"

namespace hetsynth::synth {

/// Positions at which a stage may begin: those that no more data crosses on the way forward than the positions around
/// them. Ascending, without the first position.
struct CutPoints {
  std::vector<int> at;
  std::vector<double> bytes, bytes_back;  ///< what a device of the group sends on there in a turn, and gets back
};

/// Large parameters of the first half of the positions that are read again in the second one (tied embeddings).
struct SharedParameters {
  double bytes = 0;  ///< of all
  int again = -1;    ///< the last position that reads one
  int with = -1;     ///< the first position of what they are computed with there
  std::set<NodeId> nodes = {};
};
SharedParameters shared_parameters(const Program& in_turns, const StagePositions& positions);

/// Whether a tensor is better converted so on the stage that reads it: what is sent then is no larger.
inline bool converts_late(Opcode conversion) {
  return conversion == Opcode::all_gather || conversion == Opcode::all_to_all;
}

/// `pricer`: of `group`, which is a plan of the step for one group of devices.
CutPoints cut_points(const Program& in_turns, const SpmdProgram& group, const Pricer& pricer,
                     const StagePositions& positions);

}  // namespace hetsynth::synth
