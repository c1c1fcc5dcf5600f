// Where a step taken in turns can be cut into the segments of a pipeline. Every node of the program gets a position on
// one line, in the order in which a turn's forward pass runs; a segment is a range of positions, and what belongs
// together (a layer's forward pass, backward pass, parameters, states and update) lies at positions near each other.
#pragma once
#include <vector>

#include "dsl/ir/program.h"

namespace hetsynth::synth {

struct StagePositions {
  int loop = -1;             ///< the loop over samples whose turns a pipeline overlaps; -1: there is none
  int count = 0;             ///< positions are 0, 1, ..., count - 1
  std::vector<int> of;       ///< by node; any_position: computed wherever it is read
  std::vector<int> last;     ///< by node: of the last node of the forward pass that reads it, if any does
  std::vector<NodeId> home;  ///< by node: the one parameter that it is for; negative: none
  std::vector<char> whole;   ///< by position: no segment may begin there, since what is before it and at it is made
                             ///< again together (checkpoint in dsl/include/hetsynth/model.h)
  std::vector<char> again;   ///< by node of the loop: it runs on the way back
};

/// Of nodes that follow from inputs and constants alone, and of scalar states.
constexpr int any_position = -1;

/// A node of the forward pass stands at its place in the program. A node of the backward pass stands where what it
/// reads of the forward pass was made, but not behind what it reads of the backward pass; what is computed for one
/// parameter alone, as near to that parameter as it can. What runs once stands with the parameter that it belongs to.
/// So data of the forward pass only go to higher positions, and data of the backward pass to lower ones.
StagePositions stage_positions(const Program& in_turns);

}  // namespace hetsynth::synth
