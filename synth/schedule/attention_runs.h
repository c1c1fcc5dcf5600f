// Attention as a program runs it: what of it stays in one piece on every device, and what its blocks are made from.
#pragma once
#include <vector>

#include "dsl/spmd/spmd.h"
#include "synth/model/cost.h"

namespace hetsynth::synth {

/// Attention of which no device stores scores. Indices are those of instructions.
struct AttentionRun {
  const Attention* attention;
  std::vector<int> mixed{};      ///< weights times values: once, and again where the plan makes it again
  int first = -1, last = -1;     ///< of the gradient's blocks; -1: there are none
  std::vector<ValueId> again{};  ///< what these make the weights from, and the result; as there is when they begin
  /// Blocks of the forward pass that are made again and stored for a gradient that does not run in blocks.
  std::vector<ValueId> stored{};
};

class AttentionRuns {
 public:
  /// In one piece is attention that devices have blocks for and whose scores-shaped tensors are each held in one way,
  /// the same for all, keys not being cut; what is made again of its forward pass is all of it. What the generator asks
  /// for too (codegen/passes/attention.h).
  AttentionRuns(const CostModel& cost, const SpmdProgram& spmd);

  const std::vector<AttentionRun>& found() const { return runs_; }
  /// The part that a node plays in attention in one piece.
  AttentionPart part(NodeId node) const { return run(node) < 0 ? AttentionPart::none : cost_.attention().part(node); }
  /// Whether a scores-shaped tensor is stored though it would not have to be: the plan takes its attention apart.
  bool taken_apart(NodeId node) const;
  /// The place in `found` of the attention that the node belongs to; -1: none in one piece.
  int run(NodeId node) const;

 private:
  std::vector<char> in_one_piece(const SpmdProgram& spmd) const;
  void find_instructions(const SpmdProgram& spmd);

  const CostModel& cost_;
  std::vector<int> run_of_;  ///< by attention of the program
  std::vector<AttentionRun> runs_;
};

}  // namespace hetsynth::synth
