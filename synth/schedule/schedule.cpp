#include "synth/schedule/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "dsl/spmd/buckets.h"
#include "dsl/spmd/nested_cut.h"
#include "synth/schedule/overlapped_turns.h"
#include "synth/schedule/price.h"
#include "synth/schedule/timeline.h"

namespace hetsynth::synth {
namespace {

/// The value that a loop begins its turns with, by what each turn hands on.
std::map<ValueId, ValueId> carries_by_next(const SpmdProgram& spmd) {
  std::map<NodeId, ValueId> nexts;
  for (const auto& [carry, next] : spmd.carried) nexts[carry] = next;
  std::map<ValueId, ValueId> out;
  if (nexts.empty()) return out;
  for (const Instruction& instruction : spmd.instructions)
    if (const auto next = nexts.find(spmd.values[instruction.result].node);
        next != nexts.end() && instruction.opcode == Opcode::compute)
      out[next->second] = instruction.result;
  return out;
}

bool stands_in(const LoopSpan& span, int instruction) { return span.first <= instruction && instruction < span.last; }

}  // namespace

std::vector<int> made_at(const Problem& problem, const SpmdProgram& spmd) {
  std::vector<int> made(spmd.values.size(), -1);
  for (int i = 0; i < int(spmd.instructions.size()); ++i) made[spmd.instructions[i].result] = i;
  const std::vector<LoopSpan> spans = loop_spans(problem.program, spmd);
  for (const LoopSpan& span : spans)
    for (int i = span.first; i < span.last; ++i)
      if (stacked_dim(problem.program[spmd.values[spmd.instructions[i].result].node].space) >= 0)
        made[spmd.instructions[i].result] = span.first;
  for (const auto& [next, carry] : carries_by_next(spmd))
    for (const LoopSpan& span : spans)
      if (stands_in(span, made[carry])) made[carry] = span.first;
  return made;
}

namespace {

/// What a loop reads of outside it reads in the last turn too; what it hands on lives until the next turn.
void extend_over_turns(const Problem& problem, const SpmdProgram& spmd, std::vector<int>* uses) {
  std::vector<int>& last = *uses;
  const std::vector<int> made = made_at(problem, spmd);
  const std::map<ValueId, ValueId> carries = carries_by_next(spmd);
  for (const LoopSpan& span : loop_spans(problem.program, spmd)) {
    for (int i = span.first; i < span.last; ++i)
      for (ValueId operand : spmd.instructions[i].operands)
        if (made[operand] < span.first) last[operand] = std::max(last[operand], span.last - 1);
    for (const auto& [next, carry] : carries)
      if (stands_in(span, made[carry]))
        for (const ValueId value : {next, carry}) last[value] = std::max(last[value], span.last - 1);
  }
}

/// What is made in the loop of its reader has its operands read there. Blocks of attention are made where their product
/// with the values is, and again for the gradient from what is there by then.
void extend_to_readers(const Problem& problem, const SpmdProgram& spmd, const AttentionRuns& attention,
                       const std::vector<char>& stored, std::vector<int>* uses) {
  std::vector<int>& last = *uses;
  for (const AttentionRun& run : attention.found())
    for (ValueId value : run.again) last[value] = std::max(last[value], run.last);
  for (int i = int(spmd.instructions.size()); i-- > 0;) {
    const Instruction& instruction = spmd.instructions[i];
    const NodeId node = spmd.values[instruction.result].node;
    if (stored[instruction.result] || !problem.cost.fused(node)) continue;
    int until = last[instruction.result];
    if (attention.part(node) == AttentionPart::forward_block) {
      const std::vector<int>& mixed = attention.found()[size_t(attention.run(node))].mixed;
      const auto next = std::ranges::upper_bound(mixed, i);
      until = next == mixed.end() ? i : *next;
    }
    for (ValueId operand : instruction.operands) last[operand] = std::max(last[operand], until);
  }
}

/// Collectives that run beside computing keep their operands and results until they are waited for. Programs that are
/// only looked at on the way to a plan have none.
void keep_while_under_way(const Problem& problem, const SpmdProgram& spmd, std::vector<int>* last) {
  const auto in_bucket = [](const Instruction& instruction) { return instruction.bucket >= 0; };
  if (std::ranges::none_of(spmd.instructions, in_bucket)) return;
  const std::vector<int> waited = waited_for_before(problem.program, spmd);
  for (size_t i = 0; i < spmd.instructions.size(); ++i) {
    const Instruction& instruction = spmd.instructions[i];
    if (!in_bucket(instruction)) continue;
    const auto keep = [&](ValueId value) { (*last)[value] = std::max((*last)[value], waited[i] - 1); };
    keep(instruction.result);
    for (const ValueId operand : instruction.operands) keep(operand);
  }
}

}  // namespace

std::vector<int> last_uses(const Problem& problem, const SpmdProgram& spmd, const AttentionRuns& attention,
                           const std::vector<char>& stored) {
  int end = int(spmd.instructions.size());
  std::vector<int> last(spmd.values.size(), -1);
  for (int i = 0; i < end; ++i) {
    const Instruction& instruction = spmd.instructions[i];
    last[instruction.result] = std::max(last[instruction.result], i);
    for (ValueId operand : instruction.operands) last[operand] = i;
  }
  keep_while_under_way(problem, spmd, &last);
  for (ValueId leaf : spmd.leaves) last[leaf] = end;
  for (const auto& [target, value] : spmd.finals) last[value] = end;
  if (spmd.loss >= 0) last[spmd.loss] = end;
  extend_over_turns(problem, spmd, &last);
  // What a turn hands on lies where it was taken over.
  for (const auto& [next, carry] : carries_by_next(spmd))
    if (!stored[next]) last[carry] = std::max(last[carry], last[next]);
  for (size_t v = 0; v < spmd.values.size(); ++v)
    if (problem.is_output[spmd.values[v].node]) last[v] = end;
  extend_to_readers(problem, spmd, attention, stored, &last);
  return last;
}

std::vector<char> stored_values(const Problem& problem, const SpmdProgram& spmd, const AttentionRuns& attention) {
  std::vector<int> made(spmd.values.size(), -1), read(spmd.values.size(), -1);
  std::vector<char> moved(spmd.values.size(), 0);  // no loop alone makes and reads it
  for (int i = 0; i < int(spmd.instructions.size()); ++i) {
    const Instruction& instruction = spmd.instructions[i];
    const bool moves = instruction.opcode != Opcode::compute;
    made[instruction.result] = i;
    moved[instruction.result] |= moves;
    for (ValueId operand : instruction.operands) read[operand] = i, moved[operand] |= moves;
  }
  std::vector<char> stored;
  stored.reserve(spmd.values.size());
  for (size_t v = 0; v < spmd.values.size(); ++v)
    stored.push_back(!problem.cost.fused(spmd.values[v].node) || moved[v] ||
                     attention.taken_apart(spmd.values[v].node));
  const auto node_of = [&](ValueId leaf) { return spmd.values[leaf].node; };
  std::vector<ValueId> leaves = spmd.leaves;
  std::ranges::stable_sort(leaves, {}, node_of);
  for (const auto& [target, value] : spmd.finals)
    for (const ValueId leaf : std::ranges::equal_range(leaves, target, {}, node_of))
      if (value != leaf && read[leaf] <= made[value]) stored[value] = 0;
  for (const auto& [next, carry] : carries_by_next(spmd))
    if (read[carry] <= made[next]) stored[next] = 0;
  return stored;
}

Storage storage_of(const Problem& problem, const SpmdProgram& spmd) {
  const AttentionRuns attention(problem.cost, spmd);
  Storage out;
  out.stored = stored_values(problem, spmd, attention);
  out.made = made_at(problem, spmd);
  out.last = last_uses(problem, spmd, attention, out.stored);
  for (const AttentionRun& run : attention.found()) {
    if (run.first < 0) continue;
    for (const ValueId value : run.stored) {
      const auto v = size_t(value);
      out.stored[v] = 1;
      out.made[v] = run.first;
      out.last[v] = std::max(out.last[v], run.first);
    }
  }
  return out;
}

namespace {

/// Numbers for what tensors are cut by, in the order of first sight.
class CutsMet {
 public:
  int number(const Cuts& cuts) {
    const size_t at = size_t(std::ranges::find(met_, cuts) - met_.begin());
    if (at == met_.size()) met_.push_back(cuts);
    return int(at);
  }
  /// In ascending order; `place`: where each comes to be.
  std::vector<Cuts> sorted(std::vector<size_t>* place) const {
    std::vector<Cuts> out = met_;
    std::ranges::sort(out);
    for (const Cuts& cuts : met_) place->push_back(size_t(std::ranges::lower_bound(out, cuts) - out.begin()));
    return out;
  }

 private:
  std::vector<Cuts> met_;  // few
};

/// Bytes of a whole tensor that are cut alike.
struct CutBytes {
  int cuts;
  double bytes;
};

/// A value's own part and what it holds besides, of those around it.
class HeldBytes {
 public:
  HeldBytes(const Problem& problem, const SpmdProgram& spmd) : problem_(problem), spmd_(spmd) {}

  void append(const Value& value, CutsMet* met, std::vector<CutBytes>* out) const {
    const double bytes = double(problem_.cost.bytes(value.node));
    Cuts cuts;
    cuts.fill(-1);
    for (size_t axis = 0; axis < value.placements.size(); ++axis)
      if (value.placements[axis].kind == Placement::Kind::sharded) cuts[axis] = cut(value, axis);
    out->push_back({met->number(cuts), bytes});
    for (size_t axis = 0; axis < value.placements.size(); ++axis) {
      const Placement& p = value.placements[axis];
      if (!p.overlaps()) continue;
      Cuts beside = cuts;
      beside[axis] = -1;
      out->push_back({met->number(beside), bytes * overlap(problem_.program[value.node], p)});
    }
  }

 private:
  CutClass cut(const Value& value, size_t axis) const {
    const Placement& placement = value.placements[axis];
    const int class_id = problem_.classes.dims[value.node][size_t(placement.dim)];
    return nests(spmd_.tables[size_t(placement.table)]) ? parts_of(class_id) : class_id;
  }

  const Problem& problem_;
  const SpmdProgram& spmd_;
};

/// Lists by number, in one piece of memory.
class Lists {
 public:
  Lists(size_t count, const std::vector<int>& list_of) : begin_(count + 1, 0) {
    for (int list : list_of)
      if (list >= 0) ++begin_[size_t(list) + 1];
    for (size_t i = 0; i < count; ++i) begin_[i + 1] += begin_[i];
    members_.resize(begin_.back());
    std::vector<size_t> next(begin_.begin(), begin_.end() - 1);
    for (size_t v = 0; v < list_of.size(); ++v)
      if (list_of[v] >= 0) members_[next[size_t(list_of[v])]++] = ValueId(v);
  }
  std::span<const ValueId> operator[](size_t list) const {
    return {members_.data() + begin_[list], begin_[list + 1] - begin_[list]};
  }

 private:
  std::vector<size_t> begin_;
  std::vector<ValueId> members_;
};

}  // namespace

MemoryProfile memory_profile(const Problem& problem, const SpmdProgram& spmd) {
  const auto [stored, made, last] = storage_of(problem, spmd);
  const size_t end = spmd.instructions.size(), count = spmd.values.size();
  const Lists freed(end + 1, last), begun(end, made);
  CutsMet met;
  std::vector<CutBytes> held;
  std::vector<size_t> first{0};  // by value: of what it holds
  const HeldBytes held_bytes(problem, spmd);
  for (size_t v = 0; v < count; ++v) {
    if (stored[v]) held_bytes.append(spmd.values[v], &met, &held);
    first.push_back(held.size());
  }
  MemoryProfile out;
  std::vector<size_t> place;
  out.cuts = met.sorted(&place);
  std::vector<double> live(out.cuts.size(), 0);
  const auto change = [&](ValueId v, double sign) {
    for (size_t i = first[size_t(v)]; i < first[size_t(v) + 1]; ++i)
      live[place[size_t(held[i].cuts)]] += sign * held[i].bytes;
  };
  const auto add_point = [&](NodeId node) {
    out.nodes.push_back(node);
    out.bytes.insert(out.bytes.end(), live.begin(), live.end());
  };
  for (ValueId leaf : spmd.leaves) change(leaf, 1);
  add_point(-1);
  NodeId node = -1;
  for (size_t i = 0; i < end; ++i) {
    for (ValueId v : begun[i]) change(v, 1);
    node = spmd.values[size_t(spmd.instructions[i].result)].node;
    // Between two instructions that free something memory only grows: the last point before it stands for all.
    if (!freed[i].empty()) add_point(node);
    for (ValueId v : freed[i]) change(v, -1);
  }
  add_point(node);
  return out;
}

std::vector<int64_t> peak_memory(const Problem& problem, const Shares& shares, const SpmdProgram& spmd) {
  std::vector<int64_t> bytes;
  for (const MemoryPeak& peak : memory_peaks(problem, shares, spmd)) bytes.push_back(peak.bytes);
  return bytes;
}

std::vector<MemoryPeak> memory_peaks(const Problem& problem, const Shares& shares, const SpmdProgram& spmd) {
  const MemoryProfile profile = memory_profile(problem, spmd);
  // Devices with the same parts of everything are told once.
  std::map<std::vector<double>, int> number;
  std::vector<int> alike;
  std::vector<std::vector<double>> parts;  // by number and cuts
  for (int d = 0; d < problem.cost.device_count(); ++d) {
    std::vector<double> own;
    for (const Cuts& cuts : profile.cuts) {
      own.push_back(1);
      for (int axis = 0; axis < max_axes; ++axis) own.back() *= problem.cost.part(cuts[axis], axis, shares, d);
    }
    const auto [it, fresh] = number.try_emplace(own, int(number.size()));
    alike.push_back(it->second);
    if (fresh) parts.push_back(std::move(own));
  }
  std::vector<MemoryPeak> peaks(parts.size());
  for (size_t point = 0; point < profile.nodes.size(); ++point)
    for (size_t k = 0; k < parts.size(); ++k) {
      const double bytes = std::inner_product(parts[k].begin(), parts[k].end(), profile.at(point).begin(), 0.0);
      if (int64_t whole = std::llround(bytes); whole > peaks[k].bytes) peaks[k] = {whole, profile.nodes[point]};
    }
  std::vector<MemoryPeak> out;
  for (int k : alike) out.push_back(peaks[size_t(k)]);
  return out;
}

std::vector<DevicePrediction> predicted_memory(const Cluster& cluster, const std::vector<int64_t>& bytes) {
  std::vector<DevicePrediction> out;
  for (const int64_t needed : bytes) {
    const Device& device = cluster.devices[out.size()];
    out.emplace_back();
    out.back().device = device.name;
    out.back().memory_bytes = needed;
    out.back().memory_limit_bytes = device.memory_bytes;
  }
  return out;
}

std::vector<DevicePrediction> predict_memory(const Problem& problem, const Shares& shares, const SpmdProgram& spmd) {
  return predicted_memory(problem.cluster, peak_memory(problem, shares, spmd));
}

Prediction predict(const Problem& problem, const Shares& shares, const SpmdProgram& spmd) {
  return predict(problem, predict_memory(problem, shares, spmd), spmd);
}

namespace {

/// What devices spend.
Timeline timeline_of(const Problem& problem, const SpmdProgram& spmd, const std::vector<InstructionPrice>& prices) {
  Unfolding unfolding = unfolding_of(problem, spmd);
  if (spmd.schedules.empty()) return simulated_sums(spmd, prices, unfolding);
  const CostOfOneTurn once = cost_of_one_turn(problem.program, spmd, prices, std::move(unfolding));
  const TurnByTurn turns = turn_by_turn(problem.program, spmd);
  return simulated_sums(spmd, once.prices, once.unfolding, &turns);
}

}  // namespace

Prediction predict(const Problem& problem, std::vector<DevicePrediction> memory, const SpmdProgram& spmd) {
  Prediction out;
  out.devices = std::move(memory);
  const std::vector<InstructionPrice> prices = price_instructions(problem, spmd);
  const Timeline timeline = timeline_of(problem, spmd, prices);
  out.step_seconds = timeline.seconds;
  out.hidden_weight = problem.cost.hidden_weight();
  std::vector<double> flops(out.devices.size(), 0);
  Picoseconds objective = 0;
  for (size_t i = 0; i < prices.size(); ++i) {
    const NodeId node = spmd.values[size_t(spmd.instructions[i].result)].node;
    const bool hides = prices[i].communicates() && problem.analysis->may_hide[size_t(node)];
    objective += Picoseconds(std::round((hides ? out.hidden_weight : 1) * double(to_picoseconds(prices[i].seconds))));
    for (size_t d = 0; d < flops.size(); ++d) flops[d] += prices[i].device_flops[d];
  }
  out.objective_seconds = to_seconds(objective);
  const double total = std::accumulate(flops.begin(), flops.end(), 0.0);
  for (size_t d = 0; d < flops.size(); ++d) {
    DevicePrediction& device = out.devices[d];
    const DeviceTimeline& spent = timeline.devices[d];
    device.share = total > 0 ? flops[d] / total : 1.0 / double(flops.size());
    device.compute_seconds = spent.compute_seconds;
    device.communication_seconds = spent.communication_seconds;
    device.hidden_seconds = spent.hidden_seconds;
    device.idle_seconds = spent.idle_seconds;
  }
  return out;
}

}  // namespace hetsynth::synth
