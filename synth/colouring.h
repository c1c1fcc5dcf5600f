// Variables of a network that look alike from near by: those of inner repeated layers.
#pragma once
#include "synth/network.h"

namespace hetsynth::synth {

/// A partition of the variables by colour refinement. Variables of one colour have equal costs and, for every colour,
/// equally many neighbours of it, with equal tables and on the same side in the order of positions, as far as `rounds`
/// of refinement can tell.
struct Colouring {
  std::vector<int> colour;          ///< by variable
  std::vector<int> representative;  ///< by colour: the first of its variables
  std::vector<int> count;           ///< by colour
};

/// `rank`: place of every variable in the order of positions. Stops early when nothing changes.
Colouring colour(const Network& network, const std::vector<int>& rank, int rounds);

/// Every variable its own colour.
Colouring every_variable(const Network& network);

}  // namespace hetsynth::synth
