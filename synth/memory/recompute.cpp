#include "synth/memory/recompute.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <functional>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

#include "dsl/base/error.h"
#include "dsl/spmd/loop_schedule.h"
#include "synth/memory/backward_liveness.h"
#include "synth/memory/recompute_floor.h"
#include "synth/schedule/lower.h"
#include "synth/schedule/price.h"
#include "synth/schedule/schedule.h"
#include "synth/support/parameters.h"

namespace hetsynth::synth {
namespace {

/// Writes the program with the copies.
class Rewriting {
 public:
  Rewriting(const SpmdProgram& program, const BackwardLiveness& reads, const std::vector<ValueId>& again,
            SpmdProgram scrap = {})
      : program_(program),
        reads_(reads),
        again_(program.values.size(), 0),
        copy_(program.values.size(), -1),
        out_(std::move(scrap)) {
    for (ValueId value : again) again_[value] = 1;
    for (const AttentionRun& run : reads_.attention().found()) begins_.emplace(run.first, &run);
  }

  SpmdProgram run() {
    std::tie(out_.mesh, out_.tables, out_.leaves, out_.finals) =
        std::tie(program_.mesh, program_.tables, program_.leaves, program_.finals);
    std::tie(out_.loss, out_.carried, out_.hosts) = std::tie(program_.loss, program_.carried, program_.hosts);
    out_.instructions.reserve(2 * program_.instructions.size());
    out_.values.reserve(2 * program_.values.size());
    for (const Value& value : program_.values) values_.next() = value;
    std::vector<ValueId> operands;
    for (int i = 0; i < int(program_.instructions.size()); ++i) {
      at_.push_back(instructions_.count());
      if (const auto run = begins_.find(i); run != begins_.end())
        for (ValueId value : run->second->again)
          if (again_[value]) copy(value);
      const Instruction& instruction = program_.instructions[size_t(i)];
      operands = instruction.operands;
      if (reads_.late(i))
        for (ValueId& operand : operands)
          if (again_[operand]) operand = copy(operand);
      Instruction& out = instructions_.next();
      out = instruction;
      out.operands = operands;
    }
    at_.push_back(instructions_.count());
    instructions_.finish();
    values_.finish();
    return std::move(out_);
  }

  /// Returns, by instruction of the program without copies, where it and the copies before it stand now, and last the
  /// number of all instructions.
  const std::vector<int>& at() const { return at_; }

 private:
  ValueId copy(ValueId value) {
    if (copy_[value] >= 0) return copy_[value];
    const Instruction& original = program_.instructions[reads_.made(value)];
    std::vector<ValueId> operands = original.operands;
    for (ValueId& operand : operands)
      if (again_[operand] || reads_.passing(operand)) operand = copy(operand);
    Value& named = values_.next();
    named = program_.values[value];
    if (!named.name.empty()) named.name += "#again";
    copy_[value] = values_.count() - 1;
    Instruction& instruction = instructions_.next();
    instruction = original;
    instruction.operands = std::move(operands);
    instruction.result = copy_[value];
    if (!instruction.cause.empty()) instruction.cause += "; made again, so as not to be kept until then";
    return copy_[value];
  }

  const SpmdProgram& program_;
  const BackwardLiveness& reads_;
  std::vector<char> again_;
  std::vector<ValueId> copy_;                  ///< by value
  std::map<int, const AttentionRun*> begins_;  ///< by the first instruction of the gradient's blocks
  std::vector<int> at_;
  SpmdProgram out_;
  Refill<Instruction> instructions_{&out_.instructions};
  Refill<Value> values_{&out_.values};
};

/// Which values to make twice, in which order. A value that is made twice is absent from the last instruction of the
/// forward phase that reads it until the copy is made: what counts is its bytes times that time, less the same of what
/// must now stay longer, or come back earlier, because the copy is made from it.
class Selection {
 public:
  Selection(const Problem& problem, const SpmdProgram& program, const BackwardLiveness& reads, int fullest,
            bool hard_to_check = true)
      : problem_(problem),
        program_(program),
        reads_(reads),
        hard_to_check_(hard_to_check),
        states_(program.values.size()) {
    const Pricer pricer(problem, program);
    for (int i = 0; i < int(program.instructions.size()); ++i) {
      const Instruction& instruction = program.instructions[i];
      for (ValueId operand : instruction.operands) {
        note_read(operand, i, reads_.late(i));
        states_[operand].read_late |= reads_.late(i);
      }
      State& state = states_[instruction.result];
      state.bytes = pricer.held_bytes(instruction.result, fullest);
      state.seconds = pricer.price(instruction).seconds;
      state.movable = problem.program[program.values[instruction.result].node].phase == Phase::forward;
      state.last_early = state.last = i;
    }
    for (const AttentionRun& run : reads_.attention().found())
      for (ValueId value : run.again)
        for (int i : {run.first, run.last}) note_read(value, i, true);
    hold_what_must_stay();
    for (const State& state : states_) {
      const int next = state.last_early + 1;
      absences_.push_back({ValueId(absences_.size()), state.last_early,
                           state.first_late == never ? next : std::max(next, state.first_late),
                           to_picoseconds(state.seconds)});
    }
  }

  /// Takes the move that frees most for a second's work, again and again. Moves change what others are worth: each is
  /// weighed anew when its turn comes.
  std::vector<Absence> order() {
    std::vector<Absence> out;
    for (size_t before = 1; before > 0;) {
      before = out.size();
      std::priority_queue<std::tuple<double, ValueId, bool>> open;
      for (ValueId v = 0; v < ValueId(states_.size()); ++v)
        for (bool deep : {false, true})
          if (Move move = dropping(v, deep); move.area > 0) open.emplace(move.worth(), -v, deep);
      while (!open.empty()) {
        const auto [worth, minus, deep] = open.top();
        open.pop();
        Move move = dropping(-minus, deep);
        if (move.area <= 0) continue;
        if (!open.empty() && move.worth() < std::get<0>(open.top())) {
          open.emplace(move.worth(), minus, deep);
          continue;
        }
        apply(move);
        for (ValueId value : move.dropped) out.push_back(absences_[size_t(value)]);
      }
      before = out.size() - before;
    }
    return out;
  }

 private:
  static constexpr int never = INT_MAX;
  struct State {
    double bytes = 0, seconds = 0;
    bool movable = false;    ///< may be made again
    bool dropped = false;    ///< is made again
    bool read_late = false;  ///< by an instruction after the forward phase; a copy that none reads would not be made
    int last_early = -1;     ///< last instruction of the forward phase that reads it
    int first_late = never;  ///< first one after it; of what is made again: where that happens
    int last = -1;           ///< last one of all
  };
  struct Move {
    std::vector<ValueId> dropped;
    std::map<ValueId, State> changed;
    double area = 0;  ///< bytes freed times the instructions that they are free for
    double seconds = 0;
    double worth() const { return area / (seconds + 1e-12); }
  };

  void note_read(ValueId value, int instruction, bool late) {
    State& state = states_[value];
    state.last = std::max(state.last, instruction);
    if (late)
      state.first_late = std::min(state.first_late, instruction);
    else
      state.last_early = std::max(state.last_early, instruction);
  }

  void hold_what_must_stay() {
    for (const auto& [target, value] : program_.finals) states_[value].movable = false;
    if (program_.loss >= 0) states_[program_.loss].movable = false;
    for (size_t v = 0; v < states_.size(); ++v)
      if (problem_.is_output[program_.values[v].node] || !reads_.stored(ValueId(v))) states_[v].movable = false;
    // What goes from turn to turn is made once in each, and a copy has no place outside of the loop of its readers.
    for (const auto& [carry, next] : program_.carried) states_[next].movable = false;
    for (size_t v = 0; v < states_.size() && !problem_.program.loops.empty(); ++v) {
      const NodeId node = program_.values[v].node;
      if (reads_.crosses_loops(ValueId(v)) || problem_.program.next_of(node) >= 0 ||
          stacked_dim(problem_.program[node].space) >= 0)
        states_[v].movable = false;
    }
    // What another stage sent came once.
    for (const Instruction& instruction : program_.instructions)
      if (instruction.opcode == Opcode::send) states_[instruction.result].movable = false;
    for (ValueId v = 0; v < ValueId(states_.size()) && !hard_to_check_; ++v)
      if (states_[v].movable && looks_up(v)) states_[v].movable = false;
    // Blocks of attention are made again as they are, or for the gradient: from what is stored.
    for (const Instruction& instruction : program_.instructions) {
      const AttentionPart part = reads_.part(instruction.result);
      if (part == AttentionPart::statistic) states_[instruction.result].movable = false;
      if (part != AttentionPart::none && !hard_to_check_) keep_attention(instruction);
      if (part != AttentionPart::forward_block && part != AttentionPart::mixed) continue;
      for (ValueId operand : instruction.operands)
        if (reads_.passing(operand) && reads_.part(operand) == AttentionPart::none)
          reads_.for_stored_operands(operand, [&](ValueId under) { states_[under].movable = false; });
    }
  }

  /// Whether these are whole numbers that are computed from others, as places in experts' queues are.
  bool computed_places(ValueId value) const {
    const bool whole = problem_.program[program_.values[value].node].type.dtype == DType::i32;
    return whole && reads_.made(value) >= 0 &&
           std::ranges::any_of(program_.instructions[reads_.made(value)].operands, [&](ValueId operand) {
             return problem_.program[program_.values[operand].node].type.dtype != DType::i32 ||
                    computed_places(operand);
           });
  }
  /// Whether it is computed from such numbers.
  bool looks_up(ValueId value) const {
    return computed_places(value) ||
           std::ranges::any_of(program_.instructions[reads_.made(value)].operands, [&](ValueId operand) {
             return computed_places(operand) || (reads_.passing(operand) && looks_up(operand));
           });
  }

  /// Attention in blocks, and what it reads, is not made again.
  void keep_attention(const Instruction& instruction) {
    states_[instruction.result].movable = false;
    for (const ValueId operand : instruction.operands) {
      if (reads_.part(operand) != AttentionPart::none) continue;
      if (reads_.passing(operand))
        reads_.for_stored_operands(operand, [&](ValueId under) { states_[under].movable = false; });
      else
        states_[operand].movable = false;
    }
  }

  double seconds_again(ValueId value) const {
    double seconds = 0;
    std::vector<ValueId> made{value};
    for (size_t i = 0; i < made.size(); ++i) {
      seconds += states_[made[i]].seconds;
      for (ValueId operand : program_.instructions[reads_.made(made[i])].operands)
        if (reads_.passing(operand) && !std::ranges::count(made, operand)) made.push_back(operand);
    }
    return seconds;
  }

  State& of(Move& move, ValueId value) const { return move.changed.try_emplace(value, states_[value]).first->second; }

  /// Deep: what it is made from is made again too instead of being kept for it.
  Move dropping(ValueId value, bool deep) const {
    Move move;
    const State& now = states_[value];
    if (!now.movable || now.dropped || !now.read_late || now.first_late == never || now.first_late <= now.last_early)
      return move;
    move.area = now.bytes * double(now.first_late - now.last_early);
    drop(value, now.first_late, deep, &move);
    return move;
  }

  void drop(ValueId value, int at, bool deep, Move* move) const {
    State& state = of(*move, value);
    state.dropped = true;
    state.first_late = at;
    move->dropped.push_back(value);
    move->seconds += seconds_again(value);
    need_operands(value, at, deep, move);
  }

  void need_operands(ValueId value, int at, bool deep, Move* move) const {
    reads_.for_stored_operands(value, [&](ValueId operand) { need(operand, at, deep, move); });
  }

  /// Sees to it that a value is there at an instruction after the forward phase.
  void need(ValueId value, int at, bool deep, Move* move) const {
    State& state = of(*move, value);
    state.read_late = true;
    const bool later = at > state.last;
    if (!state.dropped && later && deep && state.movable && state.first_late == never &&
        move->dropped.size() < most_remade_at_once) {
      state.last = at;
      drop(value, at, deep, move);
      return;
    }
    const int first = state.first_late;
    if (later) move->area -= state.bytes * double(at - state.last);
    state.last = std::max(state.last, at);
    state.first_late = std::min(first, at);
    if (!state.dropped || at >= first) return;
    move->area -= state.bytes * double(first - at);
    need_operands(value, at, deep, move);
  }

  void apply(const Move& move) {
    for (const auto& [value, state] : move.changed) states_[value] = state;
  }

  const Problem& problem_;
  const SpmdProgram& program_;
  const BackwardLiveness& reads_;
  const bool hard_to_check_;
  std::vector<State> states_;      ///< by value
  std::vector<Absence> absences_;  ///< by value: in the program without copies
};

int fullest_device(const Candidate& candidate) {
  return int(std::ranges::max_element(candidate.fullness) - candidate.fullness.begin());
}

/// With the first `count` of the values made twice, and its memory.
Candidate with_first(const Problem& problem, const Candidate& candidate, const BackwardLiveness& reads,
                     const std::vector<Absence>& order, size_t count) {
  Candidate out = candidate;
  out.suited = false;
  for (size_t i = 0; i < count; ++i) out.recomputed.push_back(order[i].value);
  ProgramPool& programs = *problem.programs;
  out.spmd = programs.keep(Rewriting(*candidate.spmd, reads, out.recomputed, programs.scrap()).run());
  measure_memory(problem, &out);
  return out;
}

/// With more of the values made twice the step takes as long as the plan to beat.
size_t affordable(const Candidate& candidate, const std::vector<Absence>& order, Picoseconds cost_to_beat) {
  constexpr double rounding = 1e-9;  // of picoseconds, instruction by instruction
  double cost = double(candidate.cost) * (1 - rounding);
  size_t count = 0;
  for (; count < order.size(); ++count) {
    cost += double(order[count].again);
    if (cost >= double(cost_to_beat)) break;
  }
  return count;
}

}  // namespace

SpmdProgram with_recomputed(const Problem& problem, const SpmdProgram& program, const std::vector<ValueId>& again) {
  const BackwardLiveness reads(problem, program);
  Rewriting rewriting(program, reads, again);
  SpmdProgram out = rewriting.run();
  if (program.schedules.empty()) return out;
  const std::vector<LoopSpan> spans = loop_spans(problem.program, program);
  for (const LoopSchedule& schedule : program.schedules) {
    LoopSchedule& longer = out.schedules.emplace_back(schedule);
    const std::vector<int> bounds = part_bounds(schedule, *std::ranges::find(spans, schedule.loop, &LoopSpan::loop));
    for (size_t part = 0; part + 1 < bounds.size(); ++part)
      longer.parts[part] = rewriting.at()[size_t(bounds[part + 1])] - rewriting.at()[size_t(bounds[part])];
  }
  return out;
}

SpmdProgram written_out(const Problem& problem, const Candidate& candidate) {
  const Conversions conversions(*problem.analysis, problem.cost, candidate.shares);
  SpmdProgram program = lower(problem, conversions, candidate.shares, candidate.choices);
  return candidate.recomputed.empty() ? program : with_recomputed(problem, program, candidate.recomputed);
}

std::vector<Absence> recompute_order(const Problem& problem, const SpmdProgram& program, int device,
                                     bool hard_to_check) {
  return Selection(problem, program, BackwardLiveness(problem, program), device, hard_to_check).order();
}

std::optional<Candidate> recomputed_to_fit(const Problem& problem, const Candidate& candidate,
                                           Picoseconds cost_to_beat) {
  if (!problem.recompute || candidate.empty() || candidate.cost >= cost_to_beat) return std::nullopt;
  const BackwardLiveness reads(problem, *candidate.spmd);
  const std::vector<Absence> order = Selection(problem, *candidate.spmd, reads, fullest_device(candidate)).order();
  const size_t least = RecomputeFloor(problem, *candidate.spmd, order).least_count();
  const size_t most = affordable(candidate, order, cost_to_beat);
  if (least > most) return std::nullopt;
  auto with = [&](size_t count) { return with_first(problem, candidate, reads, order, count); };
  // The floor is hardly ever far below what is enough. More is not always less: what is made from copies holds them.
  std::optional<Candidate> best;
  size_t low = least == 0 ? 0 : least - 1, high = least;  // `high` of them are enough, `low` are not
  for (size_t step = 1; !best; step *= 2) {
    if (Candidate next = with(high); next.fits()) {
      best = std::move(next);
    } else {
      if (high >= most) return std::nullopt;
      low = std::exchange(high, std::min(most, high + step));
    }
  }
  while (low + 1 < high) {
    const size_t middle = (low + high) / 2;
    Candidate next = with(middle);
    (next.fits() ? high : low) = middle;
    if (next.fits()) best = std::move(next);
  }
  best->cost = 0;
  const Pricer pricer(problem, *best->spmd);
  for (const Instruction& instruction : best->spmd->instructions)
    best->cost += to_picoseconds(pricer.price(instruction).seconds);
  if (best->cost >= cost_to_beat) return std::nullopt;
  return best;
}

Candidate recomputed_to_be_thrifty(const Problem& problem, const Candidate& candidate) {
  if (!problem.recompute || candidate.empty() || !candidate.recomputed.empty()) return candidate;
  const BackwardLiveness reads(problem, *candidate.spmd);
  const std::vector<Absence> order = Selection(problem, *candidate.spmd, reads, fullest_device(candidate)).order();
  Candidate best = candidate;
  for (const size_t parts : {1, 2, 3, 4}) {
    Candidate next = with_first(problem, candidate, reads, order, order.size() * parts / 4);
    if (next.fullest() < best.fullest()) best = std::move(next);
  }
  return best;
}

}  // namespace hetsynth::synth
