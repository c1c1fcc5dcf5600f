#include "synth/stages/group_costs.h"

#include <algorithm>
#include <numeric>

#include "synth/memory/recompute.h"
#include "synth/mesh/device_subsets.h"
#include "synth/schedule/memory_budget.h"
#include "synth/schedule/price.h"
#include "synth/schedule/schedule.h"
#include "synth/stages/cut_points.h"

namespace hetsynth::synth {
namespace {

/// Most cuts that are looked at: those over which the least is sent.
constexpr size_t most_cuts = 96;
/// How many cuts are tried behind which the rest lies on the first stage.
constexpr size_t most_ring_cuts = 4;

class Costs {
 public:
  Costs(const std::shared_ptr<const Analysis>& analysis, const Cluster& cluster, const DeviceGroups& groups,
        const SpmdProgram& group, const StagePositions& positions, bool recompute)
      : analysis_(analysis),
        p_(analysis->program),
        cluster_(cluster),
        groups_(groups),
        plan_(group),
        recompute_(recompute),
        at_(positions),
        count_(size_t(positions.count)) {}

  StageProblem run() {
    out_.turns = p_.loops[size_t(at_.loop)].turns;
    for (const std::vector<int>& kind : groups_.kinds) add_kind(kind);
    add_links();
    return std::move(out_);
  }

 private:
  size_t position(ValueId value) const {
    return size_t(std::max(0, at_.of[size_t(carried_out().values[size_t(value)].node)]));
  }
  const SpmdProgram& carried_out() const { return recompute_ ? recomputed_ : plan_; }

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
    if (recompute_ && recomputed_.values.empty()) {
      std::vector<ValueId> again;
      for (const Absence& absence : recompute_order(problem, plan_, 0, hard_to_check_again))
        again.push_back(absence.value);
      recomputed_ = with_recomputed(problem, plan_, again);
    }
    const Pricer pricer(problem, carried_out());
    GroupKind made{int(kind.size()), std::vector<double>(count_, 0), std::vector<double>(count_, 0),
                   double(memory_budget(problem, 0))};
    for (const Instruction& instruction : carried_out().instructions) {
      const double seconds = pricer.price(instruction).seconds;
      if (loop_of(p_, carried_out(), instruction) == at_.loop)
        made.turn_seconds[position(instruction.result)] += seconds / double(out_.turns);
      else
        made.once_seconds[position(instruction.result)] += seconds;
    }
    out_.kinds.push_back(std::move(made));
    if (!out_.kept_bytes.empty()) return;
    add_memory(problem, pricer);
    find_cuts(Pricer(problem, plan_));
  }

  /// What all turns need, and what the backward pass of one reads of its forward pass.
  void add_memory(const Problem& problem, const Pricer& pricer) {
    out_.kept_bytes.assign(count_, 0);
    out_.saved_bytes.assign(count_, 0);
    const auto bytes = [&](ValueId value) { return std::ranges::max(pricer.held_bytes(value)); };
    for (const ValueId leaf : plan_.leaves)
      if (p_[plan_.values[size_t(leaf)].node].kind != NodeKind::input) out_.kept_bytes[position(leaf)] += bytes(leaf);
    for (const auto& [carry, next] : plan_.carried) out_.kept_bytes[position(next)] += bytes(next);
    const SpmdProgram& program = carried_out();
    const Storage storage = storage_of(problem, program);
    const auto returns = [&](ValueId value) {  // copies stand behind the values of the plan
      return size_t(value) >= plan_.values.size() || at_.again[size_t(program.values[size_t(value)].node)] != 0;
    };
    for (const Instruction& instruction : program.instructions) {
      const ValueId made = instruction.result;
      const int last = storage.last[size_t(made)];
      if (!storage.stored[size_t(made)] || returns(made) || loop_of(p_, program, instruction) != at_.loop) continue;
      if (last < int(program.instructions.size()) && returns(program.instructions[size_t(last)].result))
        out_.saved_bytes[position(made)] += bytes(made);
    }
  }

  /// Takes all cuts, or, if there are many, those over which the least is sent.
  void find_cuts(const Pricer& pricer) {
    const CutPoints all = cut_points(p_, plan_, pricer, at_);
    std::vector<size_t> kept(all.at.size());
    std::iota(kept.begin(), kept.end(), size_t(0));
    if (kept.size() > most_cuts) {
      std::ranges::stable_sort(kept, {}, [&](size_t i) { return all.bytes[i]; });
      kept.resize(most_cuts);
      std::ranges::sort(kept);
    }
    const SharedParameters shared = shared_parameters(p_, at_);
    out_.shared_bytes = shared.bytes;
    for (const size_t i : kept) {
      // The stage that reads shared parameters again sends their gradient: it is the last one.
      if (shared.again >= 0 && all.at[i] > shared.again) continue;
      out_.cuts.push_back(all.at[i]);
      out_.cut_bytes.push_back(all.bytes[i]);
      out_.cut_bytes_back.push_back(all.bytes_back[i]);
    }
    // The last ones before that.
    for (size_t i = out_.cuts.size(); i-- > 0 && out_.ring_cuts.size() < most_ring_cuts;)
      if (out_.cuts[i] <= shared.again) out_.ring_cuts.push_back(out_.cuts[i]);
  }

  const std::shared_ptr<const Analysis>& analysis_;
  const Program& p_;
  const Cluster& cluster_;
  const DeviceGroups& groups_;
  const SpmdProgram& plan_;
  const bool recompute_;
  SpmdProgram recomputed_;  ///< the plan, if values are made again
  const StagePositions& at_;
  const size_t count_;
  StageProblem out_;
};

}  // namespace

StageProblem stage_problem(const std::shared_ptr<const Analysis>& analysis, const Cluster& cluster,
                           const DeviceGroups& groups, const SpmdProgram& group, const StagePositions& positions,
                           bool recompute) {
  return Costs(analysis, cluster, groups, group, positions, recompute).run();
}

}  // namespace hetsynth::synth
