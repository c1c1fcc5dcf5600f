// Which instructions of a program run after the forward phase, and what they read.
#pragma once
#include <functional>
#include <vector>

#include "dsl/spmd/spmd.h"
#include "synth/model/problem.h"
#include "synth/schedule/attention_runs.h"

namespace hetsynth::synth {

class BackwardLiveness {
 public:
  BackwardLiveness(const Problem& problem, const SpmdProgram& program);

  /// By its phase; of what stands where its readers are, by theirs.
  bool late(int instruction) const { return late_[size_t(instruction)] != 0; }
  bool stored(ValueId value) const { return stored_[size_t(value)] != 0; }
  /// The instruction that makes a value; -1 for leaves.
  int made(ValueId value) const { return made_[size_t(value)]; }

  /// Lives in the loop of what reads it, or is made along with it, as maxima and sums are with a block of attention:
  /// whoever is made again makes this again.
  bool passing(ValueId value) const {
    return made(value) >= 0 && !crosses_loops(value) && (!stored(value) || part(value) == AttentionPart::statistic);
  }
  /// Says whether the value is read in another loop than it is made in, or in a loop and made before it: a copy would
  /// have no place.
  bool crosses_loops(ValueId value) const { return crosses_loops_[size_t(value)] != 0; }
  const AttentionRuns& attention() const { return attention_; }
  AttentionPart part(ValueId value) const { return attention_.part(program_.values[size_t(value)].node); }

  /// Calls `see` for the stored values that a value is made from; not for leaves, which are always there.
  void for_stored_operands(ValueId value, const std::function<void(ValueId)>& see) const;

 private:
  void find_crossing(const Problem& problem);

  const SpmdProgram& program_;
  AttentionRuns attention_;
  std::vector<char> stored_;
  std::vector<int> made_;
  std::vector<char> late_;
  std::vector<char> crosses_loops_;
};

}  // namespace hetsynth::synth
