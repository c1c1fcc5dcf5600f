// In which order bucket elimination takes the variables.
#pragma once
#include <cmath>

#include "synth/wcsp/network.h"

namespace hetsynth::synth {

struct EliminationOrder {
  std::vector<int> variables;
  std::vector<double> sizes;  ///< entries of the joint table met at each
  double largest = 0;
};

/// Always the variable with the smallest joint table, of equals the one with fewest neighbours, then the first. Ends
/// where that table would have more than `limit` entries: `largest` says so.
EliminationOrder elimination_order(const Network& network, double limit = HUGE_VAL);

}  // namespace hetsynth::synth
