// How the turns of a step hold its tensors. It follows from what each operator reads: nothing is chosen.
#pragma once
#include <map>
#include <utility>
#include <vector>

#include "dsl/transform/turns.h"

namespace hetsynth {

struct PlacedInTurns {
  std::vector<TurnPlacement> placements;        ///< by node
  std::map<std::pair<NodeId, int>, int> parts;  ///< as in Turns
  std::vector<bool> after;                      ///< by node: known behind all turns alone
  /// By node: needed for a sum that is read beside samples (how many labels count, say), which a loop of its own
  /// computes before.
  std::vector<bool> early;
};

/// Thrown where a tensor forbids turns.
struct TurnsRefused {
  NoTurns reason;
};

/// A tensor that follows from parameters alone is replicated; it may be cut as well where something reads only the
/// samples of a turn of it. Throws TurnsRefused.
PlacedInTurns place_in_turns(const Program& whole, int64_t turns);

}  // namespace hetsynth
