#include "synth/schedule/memory.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <unordered_map>
#include <utility>

#include "dsl/spmd/loop_schedule.h"
#include "dsl/spmd/recomputation.h"
#include "synth/schedule/price.h"
#include "synth/schedule/schedule.h"
#include "synth/support/interner.h"

namespace hetsynth::synth {
namespace {

/// The bytes that devices hold of one value: pairs of a device and its bytes, without those that hold nothing.
using Held = std::vector<std::pair<int, int64_t>>;

/// A value from the step of the course that makes it to the last one that reads it.
struct Lifetime {
  ValueId value;
  int made, last;  ///< leaves: made before the first instruction
  const Held* held;
};

/// Works out what devices hold of values, once for all values that are as large and lie alike.
class HeldByDevice {
 public:
  HeldByDevice(const Problem& problem, const SpmdProgram& spmd)
      : problem_(problem), spmd_(spmd), pricer_(problem, spmd) {}

  const Held* of(ValueId id) {
    const Value& value = spmd_.values[size_t(id)];
    key_.assign({problem_.cost.bytes(value.node)});
    for (const Placement& p : value.placements) {
      key_.insert(key_.end(), {int64_t(p.kind), p.dim, p.table, p.at, p.before, p.after});
      // What parts overlap by depends on how long the dimension is.
      if (p.overlaps()) key_.push_back(problem_.program[value.node].type.shape[size_t(p.dim)]);
    }
    const auto [it, fresh] = known_.try_emplace(key_);
    for (int d = 0; fresh && d < problem_.cost.device_count(); ++d)
      if (const int64_t bytes = std::llround(pricer_.held_bytes(id, d)); bytes != 0) it->second.push_back({d, bytes});
    return &it->second;
  }

 private:
  const Problem& problem_;
  const SpmdProgram& spmd_;
  const Pricer pricer_;
  std::vector<int64_t> key_;                                            ///< of the value at hand
  std::unordered_map<std::vector<int64_t>, Held, SequenceHash> known_;  ///< members keep their addresses
};

/// The instructions of a program one after the other, as often as they run. Those of a loop run once, unless it has a
/// schedule: what its turns keep at the same time lies side by side.
class Course {
 public:
  Course(const Problem& problem, const SpmdProgram& spmd) {
    const std::vector<LoopSpan> spans = loop_spans(problem.program, spmd);
    begin_.resize(spmd.instructions.size());
    for (int i = 0; i < int(spmd.instructions.size());) {
      const auto span = std::ranges::find(spans, i, &LoopSpan::first);
      const LoopSchedule* schedule = span == spans.end() ? nullptr : schedule_of(spmd, span->loop);
      if (!schedule) {
        run(i++);
        continue;
      }
      const std::vector<int> bounds = part_bounds(*schedule, *span);
      for (const auto& [part, turn] : schedule->order)
        for (int j = bounds[size_t(part)]; j < bounds[size_t(part) + 1]; ++j) run(j);
      i = span->last;
      overlapped_ = *span;
    }
    find_kept(problem, spmd);
  }

  int length() const { return int(instructions_.size()); }
  int instruction(int at) const { return at < 0 ? -1 : instructions_[size_t(at)]; }
  /// Where a value lives that the plan has from one instruction to another: once, or in each turn.
  std::vector<std::pair<int, int>> spans(ValueId value, int made, int last) const {
    const auto end = int(begin_.size());
    if (made < 0) return {{-1, last >= end ? length() : begin_[size_t(last)].back()}};
    const bool by_turn = made >= overlapped_.first && last < overlapped_.last && !kept_[size_t(value)];
    if (!by_turn) return {{begin_[size_t(made)].front(), last >= end ? length() : begin_[size_t(last)].back()}};
    std::vector<std::pair<int, int>> out;
    for (size_t turn = 0; turn < begin_[size_t(made)].size(); ++turn)
      out.push_back({begin_[size_t(made)][turn], begin_[size_t(last)][turn]});
    return out;
  }

 private:
  void run(int instruction) {
    begin_[size_t(instruction)].push_back(length());
    instructions_.push_back(instruction);
  }

  /// What a turn hands on, and what all turns fill together.
  void find_kept(const Problem& problem, const SpmdProgram& spmd) {
    kept_.assign(spmd.values.size(), 0);
    for (const auto& [carry, next] : spmd.carried) kept_[size_t(next)] = 1;
    for (size_t v = 0; v < spmd.values.size(); ++v) {
      const NodeId node = spmd.values[v].node;
      if (problem.program.next_of(node) >= 0 || stacked_dim(problem.program[node].space) >= 0) kept_[v] = 1;
    }
  }

  std::vector<int> instructions_;
  std::vector<std::vector<int>> begin_;  ///< by instruction: where it runs, turn by turn
  LoopSpan overlapped_{-1, 0, 0};
  std::vector<char> kept_;  ///< by value
};

std::vector<Lifetime> lifetimes(const Problem& problem, const SpmdProgram& spmd, const Course& course,
                                HeldByDevice& held) {
  const auto [stored, made, last] = storage_of(problem, spmd);
  std::vector<Lifetime> out;
  auto add = [&](ValueId value) {
    if (!stored[value]) return;
    const Held* bytes = held.of(value);
    for (const auto& [from, to] : course.spans(value, made[value], std::max(made[value], last[value])))
      out.push_back({value, from, to, bytes});
  };
  for (ValueId leaf : spmd.leaves) add(leaf);
  for (const Instruction& instruction : spmd.instructions) add(instruction.result);
  return out;
}

/// By device: the most bytes in use at one instruction, and which.
struct Peaks {
  std::vector<int64_t> bytes;
  std::vector<int> at;
};

/// Lifetimes by a moment, in one piece of memory.
class ByMoment {
 public:
  ByMoment(const std::vector<Lifetime>& lifetimes, size_t moments, const auto& moment_of) : begin_(moments + 1, 0) {
    for (const Lifetime& l : lifetimes) ++begin_[moment_of(l) + 1];
    for (size_t i = 0; i < moments; ++i) begin_[i + 1] += begin_[i];
    held_.resize(lifetimes.size());
    std::vector<size_t> next(begin_.begin(), begin_.end() - 1);
    for (const Lifetime& l : lifetimes) held_[next[moment_of(l)]++] = l.held;
  }
  std::span<const Held* const> at(size_t moment) const {
    return {held_.data() + begin_[moment], begin_[moment + 1] - begin_[moment]};
  }

 private:
  std::vector<size_t> begin_;
  std::vector<const Held*> held_;
};

Peaks peaks_of(const std::vector<Lifetime>& lifetimes, int devices, int instructions) {
  // Bytes that come and go, by instruction: index 0 is before the first.
  const auto moments = size_t(instructions) + 2;
  const ByMoment made(lifetimes, moments, [](const Lifetime& l) { return size_t(l.made + 1); });
  const ByMoment freed(lifetimes, moments,
                       [&](const Lifetime& l) { return size_t(std::min(l.last, instructions) + 1); });
  Peaks out{std::vector<int64_t>(size_t(devices), 0), std::vector<int>(size_t(devices), -1)};
  std::vector<int64_t> live(size_t(devices), 0);
  for (int i = 0; i <= instructions; ++i) {
    const std::span<const Held* const> fresh = made.at(size_t(i));
    for (const Held* held : fresh)
      for (const auto& [d, bytes] : *held) live[size_t(d)] += bytes;
    for (const Held* held : fresh)
      for (const auto& [d, bytes] : *held)
        if (live[size_t(d)] > out.bytes[size_t(d)]) out.bytes[size_t(d)] = live[size_t(d)], out.at[size_t(d)] = i - 1;
    for (const Held* held : freed.at(size_t(i)))
      for (const auto& [d, bytes] : *held) live[size_t(d)] -= bytes;
  }
  return out;
}

}  // namespace

namespace {

/// What each value is kept for.
std::vector<MemoryUse> uses_of(const Problem& problem, const SpmdProgram& spmd, const std::vector<Lifetime>& lifetimes,
                               const Course& course) {
  std::vector<MemoryUse> uses(spmd.values.size(), MemoryUse::workspace);
  std::vector<int> made(spmd.values.size(), -1);
  for (const Lifetime& l : lifetimes) made[l.value] = course.instruction(l.made);
  const std::vector<char> again = made_again(spmd);
  std::vector<Phase> last_phase(spmd.values.size(), Phase::forward);
  for (const Instruction& instruction : spmd.instructions)
    for (ValueId operand : instruction.operands) {
      Phase phase = problem.program[spmd.values[instruction.result].node].phase;
      last_phase[operand] = std::max(last_phase[operand], phase);
    }
  for (int i = 0; i < int(spmd.instructions.size()); ++i) {
    const Instruction& instruction = spmd.instructions[i];
    const ValueId v = instruction.result;
    const Phase phase = problem.program[spmd.values[v].node].phase;
    if (made[v] > i) continue;  // a gradient makes it again
    if (communicates(instruction.opcode))
      uses[v] = MemoryUse::collective_buffers;
    else if (phase == Phase::forward && last_phase[v] != Phase::forward && !again[v])
      uses[v] = MemoryUse::saved_activations;
    else if (phase == Phase::backward && last_phase[v] == Phase::update)
      uses[v] = MemoryUse::gradients;
  }
  for (ValueId leaf : spmd.leaves) {
    const NodeKind kind = problem.program[spmd.values[leaf].node].kind;
    uses[leaf] = kind == NodeKind::parameter ? MemoryUse::parameters
                 : kind == NodeKind::state   ? MemoryUse::optimizer_state
                                             : MemoryUse::inputs;
  }
  return uses;
}

}  // namespace

std::vector<MemoryBreakdown> memory_at_peak(const Problem& problem, const SpmdProgram& spmd) {
  const int devices = spmd.mesh.device_count();
  const Course course(problem, spmd);
  HeldByDevice held(problem, spmd);
  const std::vector<Lifetime> all = lifetimes(problem, spmd, course, held);
  const Peaks peaks = peaks_of(all, devices, course.length());
  const std::vector<MemoryUse> uses = uses_of(problem, spmd, all, course);
  std::vector<MemoryBreakdown> out(devices);
  for (int d = 0; d < devices; ++d) out[d].instruction = course.instruction(peaks.at[d]);
  for (const Lifetime& l : all)
    for (const auto& [d, bytes] : *l.held)
      if (l.made <= peaks.at[size_t(d)] && peaks.at[size_t(d)] <= l.last)
        out[size_t(d)].bytes[size_t(uses[l.value])] += bytes;
  return out;
}

}  // namespace hetsynth::synth

namespace hetsynth {

std::string_view name(MemoryUse use) {
  switch (use) {
    case MemoryUse::parameters:
      return "parameters";
    case MemoryUse::optimizer_state:
      return "optimizer state";
    case MemoryUse::inputs:
      return "inputs";
    case MemoryUse::saved_activations:
      return "saved activations";
    case MemoryUse::gradients:
      return "gradients";
    case MemoryUse::collective_buffers:
      return "collective buffers";
    case MemoryUse::workspace:
      break;
  }
  return "workspace";
}

int64_t MemoryBreakdown::total() const {
  int64_t sum = 0;
  for (int64_t b : bytes) sum += b;
  return sum;
}

std::vector<MemoryBreakdown> memory_at_peak(const Program& reference, const SpmdProgram& program,
                                            const Cluster& cluster) {
  return synth::memory_at_peak(synth::problem_of(reference, program, cluster), program);
}

}  // namespace hetsynth
