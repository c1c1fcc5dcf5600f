#include "dsl/spmd/unroll.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "dsl/spmd/turn_by_turn.h"

namespace hetsynth {
namespace {

class PlanUnroller {
 public:
  PlanUnroller(const Program& reference, const SpmdProgram& program)
      : reference_(reference), in_(program), flat_(unroll(reference)), course_(turn_by_turn(reference, program)) {}

  UnrolledPlan run() {
    for (const Instruction& instruction : in_.instructions)
      next_bucket_ = std::max(next_bucket_, instruction.bucket + 1);
    out_.mesh = in_.mesh;
    out_.tables = in_.tables;
    out_.hosts = in_.hosts;
    for (ValueId leaf : in_.leaves) out_.leaves.push_back(define(leaf, flat_.copies[node_of(leaf)][0], ""));
    for (size_t run = 0; run < course_.runs.size(); ++run) {
      const auto& [instruction, turn, joins] = course_.runs[run];
      const Instruction& from = in_.instructions[size_t(instruction)];
      const std::span<const ValueId> operands = course_.operands_of(run);
      if (joins)
        join(from, operands);
      else
        copy(from, turn, operands);
      instruction_of_.push_back(instruction);
      turn_of_.push_back(turn);
    }
    for (const auto& [target, value] : in_.finals)
      out_.finals.push_back({flat_.copies[target][0], course_.last_of[size_t(value)]});
    if (in_.loss >= 0) out_.loss = course_.last_of[size_t(in_.loss)];
    out_.taken_over = std::move(course_.taken_over);
    return result();
  }

 private:
  UnrolledPlan result() {
    UnrolledPlan out{std::move(flat_.program),   std::move(out_),     {}, std::move(value_of_),
                     std::move(instruction_of_), std::move(turn_of_), {}, std::move(course_.last_of)};
    out.node_of.assign(out.reference.nodes.size(), -1);
    for (const Node& node : reference_.nodes) {
      out.last_node.push_back(flat_.copies[node.id].back());
      for (const std::vector<NodeId>* copies : {&flat_.parts[node.id], &flat_.copies[node.id]})
        for (NodeId copy : *copies)
          if (out.node_of[copy] < 0) out.node_of[copy] = node.id;
    }
    return out;
  }

  NodeId node_of(ValueId value) const { return in_.values[value].node; }

  ValueId define(ValueId of, NodeId node, const std::string& suffix) {
    Value value = in_.values[of];
    value.node = node;
    value.name += suffix;
    out_.values.push_back(std::move(value));
    value_of_.push_back(of);
    return ValueId(out_.values.size()) - 1;
  }

  /// The node's copy of a turn; of one that runs once (turn -1), or of the last turn.
  NodeId copy_of(NodeId node, int64_t turn) const {
    const std::vector<NodeId>& copies = flat_.copies[node];
    return turn < 0 || copies.size() == 1 ? copies.back() : copies[size_t(turn)];
  }

  void copy(const Instruction& from, int64_t turn, std::span<const ValueId> operands) {
    Instruction to = from;
    to.operands.assign(operands.begin(), operands.end());
    // A turn makes one part of a stack, which has a node of its own.
    const bool part = turn >= 0 && to.opcode == Opcode::compute && stacked_dim(reference_[from.node].space) >= 0;
    NodeId made = part ? flat_.parts[from.node][size_t(turn)] : copy_of(node_of(from.result), turn);
    if (to.opcode == Opcode::compute) to.node = part ? made : copy_of(from.node, turn);
    to.result = define(from.result, made, turn < 0 ? "" : fmt::format("[{}]", turn));
    if (turn >= 0 && to.bucket >= 0) to.bucket = next_bucket_++;
    out_.instructions.push_back(std::move(to));
  }

  /// The stack's factors index all dimensions but the new one.
  void join(const Instruction& stack, std::span<const ValueId> parts) {
    const int dim = stacked_dim(reference_[stack.node].space);
    Instruction to;
    to.node = flat_.copies[stack.node][0];
    to.operands.assign(parts.begin(), parts.end());
    for (Split split : stack.splits) {
      split.factor += split.factor >= dim;
      to.splits.push_back(split);
    }
    to.result = define(stack.result, to.node, "");
    out_.instructions.push_back(std::move(to));
  }

  const Program& reference_;
  const SpmdProgram& in_;
  Unrolling flat_;
  TurnByTurn course_;
  int next_bucket_ = 0;  ///< of what is sent in a turn
  SpmdProgram out_;
  std::vector<ValueId> value_of_;
  std::vector<int> instruction_of_;
  std::vector<int64_t> turn_of_;
};

}  // namespace

UnrolledPlan unroll(const Program& reference, const SpmdProgram& program) {
  return PlanUnroller(reference, program).run();
}

}  // namespace hetsynth
