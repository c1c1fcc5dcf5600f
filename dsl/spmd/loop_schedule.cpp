#include "dsl/spmd/loop_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace hetsynth {
namespace {

/// One check of a schedule.
class ScheduleCheck {
 public:
  ScheduleCheck(const Program& reference, const SpmdProgram& program, const LoopSchedule& schedule)
      : reference_(reference), program_(program), schedule_(schedule) {}

  std::optional<ScheduleFlaw> run() {
    if (!loop() || !parts() || !once()) return flaw_;
    for (int i = span_.first; i < span_.last; ++i)
      for (const ValueId operand : program_.instructions[size_t(i)].operands)
        if (!comes_behind(i, operand)) return flaw_;
    return flaw_;
  }

 private:
  bool fail(std::string text, int instruction = -1) {
    flaw_ = ScheduleFlaw{fmt::format("the schedule of loop {} {}", schedule_.loop, text), instruction};
    return false;
  }

  bool loop() {
    const bool known = schedule_.loop >= 0 && schedule_.loop < int(reference_.loops.size());
    const std::vector<LoopSpan> spans = loop_spans(reference_, program_);
    const auto span = std::ranges::find(spans, schedule_.loop, &LoopSpan::loop);
    if (!known || span == spans.end()) return fail("belongs to no loop of the plan");
    const auto same = [&](const LoopSchedule& other) { return other.loop == schedule_.loop; };
    if (std::ranges::count_if(program_.schedules, same) > 1) return fail("is given twice");
    span_ = *span;
    turns_ = reference_.loops[size_t(schedule_.loop)].turns;
    return true;
  }

  bool parts() {
    int64_t instructions = 0;
    for (const int count : schedule_.parts) {
      if (count < 1) return fail("has a part without instructions");
      instructions += count;
    }
    if (instructions != span_.last - span_.first)
      return fail(fmt::format("divides {} instructions into parts, but the loop has {}", instructions,
                              span_.last - span_.first));
    for (size_t part = 0; part < schedule_.parts.size(); ++part)
      part_of_.insert(part_of_.end(), size_t(schedule_.parts[part]), int(part));
    for (int i = span_.first; i < span_.last; ++i) maker_[program_.instructions[size_t(i)].result] = i;
    return true;
  }

  /// Each part in each turn, and its turns in order.
  bool once() {
    const size_t parts = schedule_.parts.size();
    if (schedule_.order.size() != parts * size_t(turns_))
      return fail(fmt::format("takes {} parts of turns, but {} parts in {} turns are {}", schedule_.order.size(), parts,
                              turns_, parts * size_t(turns_)));
    std::vector<int64_t> next(parts, 0);
    at_.assign(parts, std::vector<int64_t>(size_t(turns_), -1));
    for (size_t position = 0; position < schedule_.order.size(); ++position) {
      const auto [part, turn] = schedule_.order[position];
      if (part < 0 || size_t(part) >= parts || turn < 0 || turn >= turns_)
        return fail(fmt::format("takes part {} of turn {}, which there is not", part, turn));
      if (turn != next[size_t(part)])
        return fail(fmt::format("takes part {} of turn {} where turn {} is next", part, turn, next[size_t(part)]),
                    first_of(part));
      ++next[size_t(part)];
      at_[size_t(part)][size_t(turn)] = int64_t(position);
    }
    return true;
  }

  int first_of(int part) const {
    return std::accumulate(schedule_.parts.begin(), schedule_.parts.begin() + part, span_.first);
  }

  int part(int instruction) const { return part_of_[size_t(instruction - span_.first)]; }

  bool before(int made, int64_t turn, int read, int64_t in_turn) const {
    return part(made) == part(read) && turn == in_turn
               ? made < read
               : at_[size_t(part(made))][size_t(turn)] < at_[size_t(part(read))][size_t(in_turn)];
  }

  bool comes_behind(int reader, ValueId operand) {
    const auto maker = maker_.find(operand);
    if (maker == maker_.end()) return true;  // it is made before the loop
    const Instruction& made = program_.instructions[size_t(maker->second)];
    const bool carry = made.opcode == Opcode::compute && reference_.next_of(made.node) >= 0;
    int handed_on = -1;
    if (carry) {
      for (const auto& [node, next] : program_.carried)
        if (const auto it = maker_.find(next); node == made.node && it != maker_.end()) handed_on = it->second;
      if (handed_on < 0) return fail(fmt::format("does not know what {} takes over", reference_[made.node].name));
    }
    for (int64_t turn = 0; turn < turns_; ++turn) {
      const bool ready =
          carry && turn > 0 ? before(handed_on, turn - 1, reader, turn) : before(maker->second, turn, reader, turn);
      if (!ready)
        return fail(
            fmt::format("takes part {} of turn {}, which reads {}, before part {} of turn {} has made it", part(reader),
                        turn, program_.values[size_t(operand)].name,
                        part(carry && turn > 0 ? handed_on : maker->second), carry && turn > 0 ? turn - 1 : turn),
            reader);
    }
    return true;
  }

  const Program& reference_;
  const SpmdProgram& program_;
  const LoopSchedule& schedule_;
  LoopSpan span_{};
  int64_t turns_ = 0;
  std::vector<int> part_of_;              ///< by instruction of the loop
  std::map<ValueId, int> maker_;          ///< of the loop's values
  std::vector<std::vector<int64_t>> at_;  ///< [part][turn]: position in the order
  std::optional<ScheduleFlaw> flaw_;
};

}  // namespace

const LoopSchedule* schedule_of(const SpmdProgram& program, int loop) {
  const auto it = std::ranges::find(program.schedules, loop, &LoopSchedule::loop);
  return it == program.schedules.end() ? nullptr : &*it;
}

std::optional<ScheduleFlaw> flaw_of(const Program& reference, const SpmdProgram& program,
                                    const LoopSchedule& schedule) {
  return ScheduleCheck(reference, program, schedule).run();
}

std::vector<int> part_bounds(const LoopSchedule& schedule, const LoopSpan& span) {
  std::vector<int> out{span.first};
  for (const int count : schedule.parts) out.push_back(out.back() + count);
  return out;
}

LoopSchedule schedule_or_turns(const Program& reference, const SpmdProgram& program, const LoopSpan& span) {
  if (const LoopSchedule* schedule = schedule_of(program, span.loop)) return *schedule;
  LoopSchedule out{span.loop, {span.last - span.first}, {}};
  for (int64_t turn = 0; turn < reference.loops[size_t(span.loop)].turns; ++turn) out.order.push_back({0, turn});
  return out;
}

}  // namespace hetsynth
