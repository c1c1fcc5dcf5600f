#include "dsl/spmd/unroll.h"

#include <fmt/format.h>

namespace hetsynth {
namespace {

class PlanUnroller {
 public:
  PlanUnroller(const Program& reference, const SpmdProgram& program)
      : reference_(reference), in_(program), flat_(unroll(reference)), now_(program.values.size(), -1) {}

  UnrolledPlan run() {
    out_.mesh = in_.mesh;
    out_.tables = in_.tables;
    out_.hosts = in_.hosts;
    for (ValueId leaf : in_.leaves) out_.leaves.push_back(define(leaf, flat_.copies[node_of(leaf)][0], ""));
    const std::vector<LoopSpan> spans = loop_spans(reference_, in_);
    auto span = spans.begin();
    for (int i = 0; i < int(in_.instructions.size());) {
      if (span == spans.end() || i < span->first) {
        copy(in_.instructions[size_t(i++)], -1);
        continue;
      }
      turns(*span);
      i = (span++)->last;
    }
    for (const auto& [target, value] : in_.finals) out_.finals.push_back({flat_.copies[target][0], now_[value]});
    if (in_.loss >= 0) out_.loss = now_[in_.loss];
    return result();
  }

 private:
  UnrolledPlan result() {
    UnrolledPlan out{
        std::move(flat_.program), std::move(out_), {}, std::move(value_of_), std::move(instruction_of_), {}, now_};
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
  bool begins(const Instruction& i) const { return i.opcode == Opcode::compute && reference_.next_of(i.node) >= 0; }

  ValueId define(ValueId of, NodeId node, const std::string& suffix) {
    Value value = in_.values[of];
    value.node = node;
    value.name += suffix;
    out_.values.push_back(std::move(value));
    value_of_.push_back(of);
    return now_[of] = ValueId(out_.values.size()) - 1;
  }

  /// The node's copy of a turn; of one that runs once (turn -1), or of the last turn.
  NodeId copy_of(NodeId node, int64_t turn) const {
    const std::vector<NodeId>& copies = flat_.copies[node];
    return turn < 0 || copies.size() == 1 ? copies.back() : copies[size_t(turn)];
  }

  Instruction& copy(const Instruction& from, int64_t turn) {
    Instruction to = from;
    for (ValueId& operand : to.operands) operand = now_[operand];
    if (to.opcode == Opcode::compute) to.node = copy_of(from.node, turn);
    to.result = define(from.result, copy_of(node_of(from.result), turn), turn < 0 ? "" : fmt::format("[{}]", turn));
    out_.instructions.push_back(std::move(to));
    instruction_of_.push_back(int(&from - in_.instructions.data()));
    return out_.instructions.back();
  }

  void turns(const LoopSpan& span) {
    const int64_t count = reference_.loops[size_t(span.loop)].turns;
    std::vector<std::vector<ValueId>> parts(size_t(span.last - span.first));  // of the stacks
    for (int64_t turn = 0; turn < count; ++turn) {
      for (int i = span.first; i < span.last; ++i) {
        const Instruction& instruction = in_.instructions[size_t(i)];
        if (instruction.opcode == Opcode::compute && stacked_dim(reference_[instruction.node].space) >= 0) {
          Instruction& made = copy(instruction, turn);
          made.node = out_.values.back().node = flat_.parts[instruction.node][size_t(turn)];
          parts[size_t(i - span.first)].push_back(made.result);
        } else if (turn == 0 || !begins(instruction)) {
          copy(instruction, turn);
        }
      }
      if (turn + 1 < count) hand_on(span);
    }
    for (int i = span.first; i < span.last; ++i)
      if (!parts[size_t(i - span.first)].empty()) join(in_.instructions[size_t(i)], parts[size_t(i - span.first)]);
  }

  /// All carries at once.
  void hand_on(const LoopSpan& span) {
    std::vector<std::pair<ValueId, ValueId>> taken;
    for (int i = span.first; i < span.last; ++i)
      for (const auto& [carry, next] : in_.carried)
        if (begins(in_.instructions[size_t(i)]) && in_.instructions[size_t(i)].node == carry)
          taken.push_back({in_.instructions[size_t(i)].result, now_[next]});
    for (const auto& [carry, next] : taken) now_[carry] = next;
  }

  /// The parts in the order of their positions; the stack's factors index all dimensions but the new one.
  void join(const Instruction& stack, const std::vector<ValueId>& by_turn) {
    const Node& node = reference_[stack.node];
    const int dim = stacked_dim(node.space);
    const DimIndex& position = node.space.output.dims[size_t(dim)];
    Instruction to;
    to.node = flat_.copies[stack.node][0];
    to.operands.resize(by_turn.size());
    for (size_t turn = 0; turn < by_turn.size(); ++turn)
      to.operands[size_t(position.offset + position.per_turn * int64_t(turn))] = by_turn[turn];
    for (Split split : stack.splits) {
      split.factor += split.factor >= dim;
      to.splits.push_back(split);
    }
    to.result = define(stack.result, to.node, "");
    out_.instructions.push_back(std::move(to));
    instruction_of_.push_back(int(&stack - in_.instructions.data()));
  }

  const Program& reference_;
  const SpmdProgram& in_;
  Unrolling flat_;
  std::vector<ValueId> now_;  ///< by value: its copy of the current turn
  SpmdProgram out_;
  std::vector<ValueId> value_of_;
  std::vector<int> instruction_of_;
};

}  // namespace

UnrolledPlan unroll(const Program& reference, const SpmdProgram& program) {
  return PlanUnroller(reference, program).run();
}

}  // namespace hetsynth
