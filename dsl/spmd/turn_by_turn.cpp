#include "dsl/spmd/turn_by_turn.h"

#include <algorithm>
#include <utility>

#include "dsl/base/error.h"
#include "dsl/spmd/loop_schedule.h"

namespace hetsynth {
namespace {

class TakingTurns {
 public:
  TakingTurns(const Program& reference, const SpmdProgram& program)
      : reference_(reference),
        in_(program),
        now_(program.values.size(), -1),
        place_(program.values.size(), -1),
        handed_on_(program.values.size(), -1) {}

  TurnByTurn run() {
    out_.leaves = in_.leaves.size();
    out_.begin = {0};
    for (size_t leaf = 0; leaf < in_.leaves.size(); ++leaf) now_[size_t(in_.leaves[leaf])] = ValueId(leaf);
    const std::vector<LoopSpan> spans = loop_spans(reference_, in_);
    auto span = spans.begin();
    for (int i = 0; i < int(in_.instructions.size());) {
      if (span == spans.end() || i < span->first) {
        add(i++, -1);
        continue;
      }
      turns(*span);
      i = (span++)->last;
    }
    out_.last_of = std::move(now_);
    return std::move(out_);
  }

 private:
  const Instruction& at(int instruction) const { return in_.instructions[size_t(instruction)]; }
  bool begins(const Instruction& i) const { return i.opcode == Opcode::compute && reference_.next_of(i.node) >= 0; }
  bool stacks(const Instruction& i) const {
    return i.opcode == Opcode::compute && stacked_dim(reference_[i.node].space) >= 0;
  }

  /// The copy of a turn of what the loop at hand makes.
  ValueId& copy(ValueId value, int64_t turn) {
    const int place = place_[size_t(value)];
    HETSYNTH_CHECK(place >= 0, "what a turn hands on is made in the loop");
    return copies_[size_t(turn) * made_ + size_t(place)];
  }

  /// The value's copy of a turn; what is made once has one. A carry is what the turn before handed on.
  ValueId now(ValueId value, int64_t turn) {
    if (turn < 0 || place_[size_t(value)] < 0) return now_[size_t(value)];
    for (; turn > 0 && handed_on_[size_t(value)] >= 0; --turn) value = handed_on_[size_t(value)];
    const ValueId found = copy(value, turn);
    HETSYNTH_CHECK(found >= 0, "a turn reads what was made before");
    return found;
  }

  ValueId add(int instruction, int64_t turn) {
    const Instruction& from = at(instruction);
    for (const ValueId operand : from.operands) out_.operands.push_back(now(operand, turn));
    const ValueId made = finish({instruction, turn, false});
    if (turn >= 0) copy(from.result, turn) = made;
    return made;
  }

  ValueId finish(TurnByTurn::Run run) {
    out_.runs.push_back(run);
    out_.begin.push_back(out_.operands.size());
    return now_[size_t(at(run.instruction).result)] = out_.result(out_.runs.size() - 1);
  }

  void turns(const LoopSpan& span) {
    begin_loop(span);
    std::vector<std::vector<ValueId>> parts(made_);  // of the stacks
    const LoopSchedule schedule = schedule_or_turns(reference_, in_, span);
    const std::vector<int> bounds = part_bounds(schedule, span);
    for (const auto& [part, turn] : schedule.order)
      for (int i = bounds[size_t(part)]; i < bounds[size_t(part) + 1]; ++i) {
        const Does does = does_[size_t(i - span.first)];
        if (does == Does::begin && turn > 0) continue;
        const ValueId made = add(i, turn);
        if (does == Does::stack) parts[size_t(i - span.first)].push_back(made);
      }
    end_loop(span);
    for (int i = span.first; i < span.last; ++i)
      if (!parts[size_t(i - span.first)].empty()) join(i, parts[size_t(i - span.first)]);
  }

  void begin_loop(const LoopSpan& span) {
    turns_ = reference_.loops[size_t(span.loop)].turns;
    made_ = size_t(span.last - span.first);
    copies_.assign(size_t(turns_) * made_, -1);
    does_.assign(made_, Does::compute);
    for (int i = span.first; i < span.last; ++i) {
      const Instruction& instruction = at(i);
      place_[size_t(instruction.result)] = i - span.first;
      Does& does = does_[size_t(i - span.first)];
      if (stacks(instruction)) does = Does::stack;
      if (!begins(instruction)) continue;
      if (does == Does::compute) does = Does::begin;
      for (const auto& [carry, next] : in_.carried)
        if (instruction.node == carry) handed_on_[size_t(instruction.result)] = next;
    }
  }

  /// Behind the loop its values are those of the last turn.
  void end_loop(const LoopSpan& span) {
    for (int64_t turn = 0; turn < turns_; ++turn)
      for (int i = span.first; i < span.last; ++i)
        if (const ValueId next = handed_on_[size_t(at(i).result)]; next >= 0)
          out_.taken_over.push_back(now(next, turn));
    std::vector<ValueId> left;
    for (int i = span.first; i < span.last; ++i) left.push_back(now(at(i).result, turns_ - 1));
    for (int i = span.first; i < span.last; ++i) {
      now_[size_t(at(i).result)] = left[size_t(i - span.first)];
      place_[size_t(at(i).result)] = -1;
    }
  }

  /// The parts in the order of their positions.
  void join(int stack, const std::vector<ValueId>& by_turn) {
    const Node& node = reference_[at(stack).node];
    const DimIndex& position = node.space.output.dims[size_t(stacked_dim(node.space))];
    const size_t first = out_.operands.size();
    out_.operands.resize(first + by_turn.size());
    for (size_t turn = 0; turn < by_turn.size(); ++turn)
      out_.operands[first + size_t(position.offset + position.per_turn * int64_t(turn))] = by_turn[turn];
    finish({stack, -1, true});
  }

  /// What an instruction of the loop does besides: it begins the turns with what a carry takes over, or puts its part
  /// into a stack.
  enum class Does : uint8_t { compute, begin, stack };

  const Program& reference_;
  const SpmdProgram& in_;
  std::vector<ValueId> now_;        ///< by value made outside of the loop at hand: its last copy
  std::vector<int> place_;          ///< by value that the loop at hand makes: which of them; others: -1
  std::vector<ValueId> handed_on_;  ///< by a carry's value: what the next turn has in its place; others: -1
  int64_t turns_ = 0;               ///< of the loop at hand
  size_t made_ = 0;                 ///< how much it makes in a turn
  std::vector<ValueId> copies_;     ///< [turn][place]
  std::vector<Does> does_;          ///< by place
  TurnByTurn out_;
};

}  // namespace

TurnByTurn turn_by_turn(const Program& reference, const SpmdProgram& program) {
  return TakingTurns(reference, program).run();
}

}  // namespace hetsynth
