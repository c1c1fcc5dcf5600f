// How the turns of a step hold its tensors. It follows from what each operator reads: nothing is chosen.
#pragma once
#include <map>
#include <utility>
#include <vector>

#include "dsl/transform/turns.h"

namespace hetsynth {

/// How a turn holds a tensor of the whole step, as a mesh axis holds it over devices: all of it in every turn, the part
/// of its own samples, or a summand of a sum over all turns.
struct TurnPlacement {
  enum class Kind : uint8_t { replicated, sharded, partial };
  Kind kind = Kind::replicated;
  int dim = -1;     ///< sharded: the dimension that is cut
  int factor = -1;  ///< the loop of the operator that the turns divide; -1 where there is none
  bool operator==(const TurnPlacement&) const = default;
};

struct PlacedInTurns {
  std::vector<TurnPlacement> placements;  ///< by node
  /// Holds, by node and dimension, the loop of its operator that the turns divide: of tensors that are replicated, and
  /// read cut in that dimension as well.
  std::map<std::pair<NodeId, int>, int> parts;
  std::vector<bool> after;  ///< by node: it is known behind all turns alone
  /// Says by node whether it is needed for a sum that is read beside samples, as the count of labels that count is. A
  /// loop of its own computes such sums before.
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
