#include "dsl/spmd/unroll.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "dsl/spmd/loop_schedule.h"

namespace hetsynth {
namespace {

class PlanUnroller {
 public:
  PlanUnroller(const Program& reference, const SpmdProgram& program)
      : reference_(reference),
        in_(program),
        flat_(unroll(reference)),
        now_(program.values.size(), -1),
        made_in_loop_(program.values.size(), 0) {}

  UnrolledPlan run() {
    for (const Instruction& instruction : in_.instructions)
      next_bucket_ = std::max(next_bucket_, instruction.bucket + 1);
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
    UnrolledPlan out{std::move(flat_.program),   std::move(out_),     {}, std::move(value_of_),
                     std::move(instruction_of_), std::move(turn_of_), {}, now_};
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

  /// The value's copy of a turn; what is made once has one. A carry is what the turn before handed on.
  ValueId now(ValueId value, int64_t turn) const {
    if (turn < 0 || !made_in_loop_[size_t(value)]) return now_[size_t(value)];
    for (ValueId wanted = value;; --turn) {
      if (turn == 0) return of_turn_[0].at(wanted);
      const auto carry = handed_on_.find(wanted);
      if (carry == handed_on_.end()) return of_turn_[size_t(turn)].at(wanted);
      wanted = carry->second;
    }
  }

  Instruction& copy(const Instruction& from, int64_t turn) {
    Instruction to = from;
    for (ValueId& operand : to.operands) operand = now(operand, turn);
    if (to.opcode == Opcode::compute) to.node = copy_of(from.node, turn);
    to.result = define(from.result, copy_of(node_of(from.result), turn), turn < 0 ? "" : fmt::format("[{}]", turn));
    if (turn >= 0) of_turn_[size_t(turn)][from.result] = to.result;
    if (turn >= 0 && to.bucket >= 0) to.bucket = next_bucket_++;
    out_.instructions.push_back(std::move(to));
    instruction_of_.push_back(int(&from - in_.instructions.data()));
    turn_of_.push_back(turn);
    return out_.instructions.back();
  }

  void turns(const LoopSpan& span) {
    begin_loop(span);
    std::vector<std::vector<ValueId>> parts(size_t(span.last - span.first));  // of the stacks
    const LoopSchedule schedule = schedule_or_turns(reference_, in_, span);
    const std::vector<int> bounds = part_bounds(schedule, span);
    for (const auto& [part, turn] : schedule.order)
      for (int i = bounds[size_t(part)]; i < bounds[size_t(part) + 1]; ++i) {
        const Instruction& instruction = in_.instructions[size_t(i)];
        if (instruction.opcode == Opcode::compute && stacked_dim(reference_[instruction.node].space) >= 0) {
          Instruction& made = copy(instruction, turn);
          made.node = out_.values.back().node = flat_.parts[instruction.node][size_t(turn)];
          parts[size_t(i - span.first)].push_back(made.result);
        } else if (turn == 0 || !begins(instruction)) {
          copy(instruction, turn);
        }
      }
    end_loop(span);
    for (int i = span.first; i < span.last; ++i)
      if (!parts[size_t(i - span.first)].empty()) join(in_.instructions[size_t(i)], parts[size_t(i - span.first)]);
  }

  void begin_loop(const LoopSpan& span) {
    of_turn_.assign(size_t(reference_.loops[size_t(span.loop)].turns), {});
    for (int i = span.first; i < span.last; ++i) {
      const Instruction& instruction = in_.instructions[size_t(i)];
      made_in_loop_[size_t(instruction.result)] = 1;
      if (!begins(instruction)) continue;
      for (const auto& [carry, next] : in_.carried)
        if (instruction.node == carry) handed_on_[instruction.result] = next;
    }
  }

  /// Behind the loop its values are those of the last turn.
  void end_loop(const LoopSpan& span) {
    const int64_t last = int64_t(of_turn_.size()) - 1;
    std::vector<std::pair<ValueId, ValueId>> left;
    for (int64_t turn = 0; turn <= last; ++turn)
      for (int i = span.first; i < span.last; ++i)
        if (const auto carry = handed_on_.find(in_.instructions[size_t(i)].result); carry != handed_on_.end())
          out_.taken_over.push_back(now(carry->second, turn));
    for (int i = span.first; i < span.last; ++i) {
      const ValueId made = in_.instructions[size_t(i)].result;
      left.push_back({made, now(made, last)});
    }
    for (const auto& [made, copy] : left) {
      now_[size_t(made)] = copy;
      made_in_loop_[size_t(made)] = 0;
    }
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
    turn_of_.push_back(-1);
  }

  const Program& reference_;
  const SpmdProgram& in_;
  Unrolling flat_;
  std::vector<ValueId> now_;                         ///< by value made outside of the loop at hand: its last copy
  std::vector<char> made_in_loop_;                   ///< by value: the loop at hand makes it
  std::vector<std::map<ValueId, ValueId>> of_turn_;  ///< by turn of that loop: copies of what it makes
  std::map<ValueId, ValueId> handed_on_;             ///< by a carry's value: what the next turn has in its place
  int next_bucket_ = 0;                              ///< of what is sent in a turn
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
