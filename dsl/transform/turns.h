// A step taken in turns: the batch is cut into equal parts that run one after the other, so that the memory of what is
// computed of a sample is that of one part. The step stays that of the whole batch; only the order of its sums differs.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/ir/program.h"

namespace hetsynth {

/// In how many turns a step is taken.
struct TurnCount {
  int64_t turns = 1;
  /// The last turn stands behind the loop, so that what follows its gradients (sums over devices) can begin while it
  /// computes. The program is nearly twice as long.
  bool last_apart = false;
  bool operator==(const TurnCount&) const = default;
};
/// "4", or "3+1" if the last one stands apart; and back, nothing for other texts.
std::string text(const TurnCount& count);
std::optional<TurnCount> turn_count(std::string_view text);

/// Why a model cannot be taken in turns: a tensor of the step, and a sentence about it.
struct NoTurns {
  NodeId node = -1;
  std::string why;
};

/// A step in turns, or the reason that there is none.
struct Turns {
  std::optional<Program> program = {};
  NoTurns refusal = {};
};

/// The training step `whole` (what `differentiate` gives) in several turns, as a loop of the program: inputs
/// [samples, ...] become [turns, samples of a turn, ...], forward and backward pass of a turn stand in the loop, sums
/// over samples are carried from turn to turn, and what follows from complete sums (the update) stands behind the loop.
/// Outputs that samples share out are left out. The program remembers the turns as an option. A sum that is read beside
/// samples (how many labels count) is computed by a loop of its own before. Refused where such sums depend on each
/// other (statistics of layer upon layer), where samples meet otherwise, where they are looked at one after the other,
/// and where the batch does not divide.
Turns take_turns(const Program& whole, TurnCount count);

/// The same, where turns were asked for. Throws UserError, which names the tensor, where there is no such step.
Program in_turns(const Program& whole, TurnCount count);

/// The numbers of turns above 1 into which all inputs of the step can be cut, the smallest first.
std::vector<int64_t> possible_turns(const Program& whole);

}  // namespace hetsynth
