#include "synth/stages/group_costs.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "synth/mesh/device_subsets.h"
#include "synth/schedule/memory_budget.h"
#include "synth/schedule/price.h"
#include "synth/schedule/schedule.h"

namespace hetsynth::synth {
namespace {

/// Most cuts that are looked at: those over which the least is sent.
constexpr size_t most_cuts = 96;
/// Of a parameter that is worth lying on one stage, and how many cuts are tried for that.
constexpr int64_t many_elements = 1 << 16;
constexpr size_t most_ring_cuts = 4;

class Costs {
 public:
  Costs(const std::shared_ptr<const Analysis>& analysis, const Cluster& cluster, const DeviceGroups& groups,
        const SpmdProgram& group, const StagePositions& positions)
      : analysis_(analysis),
        p_(analysis->program),
        cluster_(cluster),
        groups_(groups),
        plan_(group),
        at_(positions),
        count_(size_t(positions.count)) {}

  StageProblem run() {
    out_.turns = p_.loops[size_t(at_.loop)].turns;
    find_shared();
    for (const std::vector<int>& kind : groups_.kinds) add_kind(kind);
    find_cuts();
    add_links();
    return std::move(out_);
  }

 private:
  size_t position(ValueId value) const { return size_t(std::max(0, at_.of[size_t(plan_.values[size_t(value)].node)])); }

  /// What leaves a host shares its link.
  void add_links() {
    std::vector<int> in_order;
    for (const std::vector<int>& kind : groups_.kinds) in_order.insert(in_order.end(), kind.begin(), kind.end());
    const auto host = [&](int device) { return cluster_.devices[size_t(device)].host; };
    for (const int from : in_order) {
      const std::vector<int>& devices = groups_.groups[size_t(from)];
      const int here = host(devices[0]);
      const auto sharing = double(std::ranges::count_if(devices, [&](int device) { return host(device) == here; }));
      out_.links.emplace_back();
      for (const int to : in_order) {
        const int there = host(groups_.groups[size_t(to)][0]);
        const Link link = there == here ? cluster_.hosts[size_t(here)].inside : cluster_.link(here, there, sharing);
        out_.links.back().push_back(link);
      }
    }
  }

  void add_kind(const std::vector<int>& kind) {
    const Cluster devices = restricted(cluster_, groups_.groups[size_t(kind[0])]);
    const Problem problem(analysis_, devices, plan_.mesh);
    const Pricer pricer(problem, plan_);
    GroupKind made{int(kind.size()), std::vector<double>(count_, 0), std::vector<double>(count_, 0),
                   double(memory_budget(problem, 0))};
    for (const Instruction& instruction : plan_.instructions) {
      const double seconds = pricer.price(instruction).seconds;
      if (loop_of(p_, plan_, instruction) == at_.loop)
        made.turn_seconds[position(instruction.result)] += seconds / double(out_.turns);
      else
        made.once_seconds[position(instruction.result)] += seconds;
    }
    out_.kinds.push_back(std::move(made));
    if (!out_.kept_bytes.empty()) return;
    add_memory(problem, pricer);
    add_crossing(pricer);
  }

  /// What all turns need, and what the backward pass of one reads of its forward pass.
  void add_memory(const Problem& problem, const Pricer& pricer) {
    out_.kept_bytes.assign(count_, 0);
    out_.saved_bytes.assign(count_, 0);
    const auto bytes = [&](ValueId value) { return std::ranges::max(pricer.held_bytes(value)); };
    for (const ValueId leaf : plan_.leaves)
      if (p_[plan_.values[size_t(leaf)].node].kind != NodeKind::input) out_.kept_bytes[position(leaf)] += bytes(leaf);
    for (const auto& [carry, next] : plan_.carried) out_.kept_bytes[position(next)] += bytes(next);
    const Storage storage = storage_of(problem, plan_);
    const auto returns = [&](ValueId value) { return at_.again[size_t(plan_.values[size_t(value)].node)] != 0; };
    for (const Instruction& instruction : plan_.instructions) {
      const ValueId made = instruction.result;
      const int last = storage.last[size_t(made)];
      if (!storage.stored[size_t(made)] || returns(made) || loop_of(p_, plan_, instruction) != at_.loop) continue;
      if (last < int(plan_.instructions.size()) && returns(plan_.instructions[size_t(last)].result))
        out_.saved_bytes[position(made)] += bytes(made);
    }
  }

  /// What crosses each position on a device, on the way forward (made before, read at it or behind) and back. What is
  /// gathered is gathered where it is read. Gradients of shared parameters go from end to end at once.
  void add_crossing(const Pricer& pricer) {
    crossing_.assign(count_ + 1, 0);
    crossing_back_.assign(count_ + 1, 0);
    struct Way {
      bool made = false;                ///< in the loop, at some position
      size_t from = 0;                  ///< where it is made
      std::optional<size_t> near, far;  ///< where it is read first and last on that way
    };
    std::vector<Way> ways(plan_.values.size());
    const auto back = [&](ValueId value) { return at_.again[size_t(plan_.values[size_t(value)].node)] != 0; };
    for (size_t i = plan_.instructions.size(); i-- > 0;) {  // readers before what they read
      const Instruction& instruction = plan_.instructions[i];
      if (loop_of(p_, plan_, instruction) != at_.loop) continue;
      const ValueId result = instruction.result;
      Way& way = ways[size_t(result)];
      way.made = at_.of[size_t(plan_.values[size_t(result)].node)] >= 0;
      way.from = instruction.opcode == Opcode::all_gather && way.near ? *way.near : position(result);
      for (const ValueId operand : instruction.operands) {
        if (back(operand) != back(result)) continue;  // where the way back reads of the way forth, it lies beside it
        const auto [low, high] = std::minmax(
            {way.from, ways[size_t(operand)].near.value_or(way.from), ways[size_t(operand)].far.value_or(way.from)});
        ways[size_t(operand)].near = back(operand) ? high : low;
        ways[size_t(operand)].far = back(operand) ? low : high;
      }
    }
    for (size_t v = 0; v < ways.size(); ++v) {
      const Way& way = ways[v];
      if (!way.made || !way.far || shared_.contains(at_.home[size_t(plan_.values[v].node)])) continue;
      const double bytes = std::ranges::max(pricer.held_bytes(ValueId(v)));
      for (size_t at = way.from + 1; at <= *way.far; ++at) crossing_[at] += bytes;
      for (size_t at = *way.far + 1; back(ValueId(v)) && at <= way.from; ++at) crossing_back_[at] += bytes;
    }
  }

  /// Positions that less crosses than those around them; of many those that least crosses.
  void find_cuts() {
    std::vector<int> cuts;
    for (size_t at = 1; at < count_; ++at)
      if (!at_.whole[at] && crossing_[at] <= crossing_[at - 1] &&
          (at + 1 == count_ || crossing_[at] <= crossing_[at + 1]))
        cuts.push_back(int(at));
    if (cuts.size() > most_cuts) {
      std::ranges::stable_sort(cuts, {}, [&](int at) { return crossing_[size_t(at)]; });
      cuts.resize(most_cuts);
      std::ranges::sort(cuts);
    }
    out_.cuts = cuts;
    find_ring_cuts();
    for (const int at : out_.cuts) {
      out_.cut_bytes.push_back(crossing_[size_t(at)]);
      out_.cut_bytes_back.push_back(crossing_back_[size_t(at)]);
    }
  }

  /// Large parameters of the first half that are read again in the second one, whose gradient the stage there sends.
  void find_shared() {
    for (const ValueId leaf : plan_.leaves) {
      const NodeId node = plan_.values[size_t(leaf)].node;
      if (p_[node].kind != NodeKind::parameter || element_count(p_[node].type.shape) < many_elements) continue;
      if (at_.of[size_t(node)] >= at_.count / 2 || at_.last[size_t(node)] <= at_.count / 2) continue;
      again_ = std::max(again_, at_.last[size_t(node)]);
      shared_.insert(node);
      out_.shared_bytes += double(element_count(p_[node].type.shape) * size_bytes(p_[node].type.dtype));
    }
  }

  /// The last cuts before that, and none behind it: the last stage sends the gradient.
  void find_ring_cuts() {
    if (again_ >= 0) std::erase_if(out_.cuts, [&](int at) { return at > again_; });
    for (size_t i = out_.cuts.size(); i-- > 0 && out_.ring_cuts.size() < most_ring_cuts;)
      if (out_.cuts[i] <= again_) out_.ring_cuts.push_back(out_.cuts[i]);
  }

  const std::shared_ptr<const Analysis>& analysis_;
  const Program& p_;
  const Cluster& cluster_;
  const DeviceGroups& groups_;
  const SpmdProgram& plan_;
  const StagePositions& at_;
  const size_t count_;
  StageProblem out_;
  std::vector<double> crossing_, crossing_back_;  ///< by position
  std::set<NodeId> shared_;
  int again_ = -1;  ///< where the last of them is read again
};

}  // namespace

StageProblem stage_problem(const std::shared_ptr<const Analysis>& analysis, const Cluster& cluster,
                           const DeviceGroups& groups, const SpmdProgram& group, const StagePositions& positions) {
  return Costs(analysis, cluster, groups, group, positions).run();
}

}  // namespace hetsynth::synth
