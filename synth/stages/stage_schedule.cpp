#include "synth/stages/stage_schedule.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "dsl/base/error.h"
#include "dsl/spmd/loop_schedule.h"
#include "synth/schedule/timeline.h"

namespace hetsynth::synth {

Sending sending_of(const Cluster& cluster) {
  if (!communicate_beside_computing(cluster)) return Sending::in_place;
  return all_of_kind(cluster.devices, DeviceKind::cpu) ? Sending::both_ways : Sending::by_direction;
}

std::vector<PartCost> part_costs(const Program& in_turns, const SpmdProgram& staged,
                                 const std::vector<InstructionPrice>& prices) {
  const LoopSchedule& schedule = staged.schedules.at(0);
  const std::vector<LoopSpan> spans = loop_spans(in_turns, staged);
  const auto span = std::ranges::find(spans, schedule.loop, &LoopSpan::loop);
  const std::vector<int> bounds = part_bounds(schedule, *span);
  const auto turns = double(in_turns.loops[size_t(schedule.loop)].turns);
  std::vector<PartCost> out;
  for (size_t part = 0; part + 1 < bounds.size(); ++part) {
    std::vector<double> busy(size_t(staged.mesh.device_count()), 0);
    PartCost cost;
    const auto add = [](std::vector<int>& stages, int stage) {
      if (!std::ranges::count(stages, stage)) stages.push_back(stage);
    };
    for (int i = bounds[part]; i < bounds[part + 1]; ++i) {
      const Instruction& instruction = staged.instructions[size_t(i)];
      for (size_t d = 0; d < busy.size(); ++d) busy[d] += prices[size_t(i)].device_seconds[d] / turns;
      if (instruction.opcode != Opcode::send) continue;
      add(cost.stages, instruction.root);
      add(cost.receivers, instruction.to);
    }
    const auto slowest = std::ranges::max_element(busy);
    cost.seconds = *slowest;
    if (!cost.sends()) cost.stages = {staged.mesh.coordinate(int(slowest - busy.begin()), 0)};
    out.push_back(std::move(cost));
  }
  return out;
}

double seconds_besides(const Program& in_turns, const SpmdProgram& staged,
                       const std::vector<InstructionPrice>& prices) {
  const int loop = staged.schedules.at(0).loop;
  std::vector<double> busy(size_t(staged.mesh.device_count()), 0);
  for (size_t i = 0; i < prices.size(); ++i)
    for (size_t d = 0; d < busy.size() && loop_of(in_turns, staged, staged.instructions[i]) != loop; ++d)
      busy[d] += prices[i].device_seconds[d];
  return *std::ranges::max_element(busy);
}

namespace {

class ListScheduling {
 public:
  ListScheduling(const std::vector<PartCost>& parts, int64_t turns, std::vector<int> under_way, Sending sending,
                 bool forward_first)
      : parts_(parts),
        turns_(turns),
        limit_(std::move(under_way)),
        mode_(sending),
        forward_first_(forward_first),
        next_(parts.size(), 0),
        ended_(parts.size()) {
    const size_t stages = limit_.size();
    for (std::vector<double>* free : {&computing_, &sending_, &receiving_, &rising_, &falling_})
      free->assign(stages, 0);
    first_.assign(stages, -1);
    last_.assign(stages, -1);
    for (size_t p = 0; p < parts.size(); ++p) {
      for (const int stage : parts[p].stages) HETSYNTH_CHECK(stage < int(stages), "a limit for each stage");
      if (parts[p].sends()) continue;
      const auto stage = size_t(parts[p].stages[0]);
      if (first_[stage] < 0) first_[stage] = int(p);
      last_[stage] = int(p);
    }
  }

  TurnOrder run() {
    const size_t all = parts_.size() * size_t(turns_);
    while (out_.order.size() < all) take_next();
    return std::move(out_);
  }

 private:
  /// What a part keeps busy.
  std::vector<double*> streams(const PartCost& part) {
    std::vector<double*> out;
    for (const int stage : part.stages) {
      if (!part.sends() || mode_ == Sending::in_place) out.push_back(&computing_[size_t(stage)]);
      if (part.sends() && mode_ == Sending::both_ways) out.push_back(&sending_[size_t(stage)]);
    }
    for (const int to : part.receivers) {
      if (mode_ == Sending::by_direction) {
        for (const int from : part.stages) {
          std::vector<double>& free = to > from ? rising_ : falling_;
          out.insert(out.end(), {&free[size_t(from)], &free[size_t(to)]});
        }
      } else {
        out.push_back(&(mode_ == Sending::in_place ? computing_ : receiving_)[size_t(to)]);
      }
    }
    return out;
  }

  /// When the part's next turn can begin; infinite if something before it has not begun yet.
  double ready(size_t p) {
    const PartCost& part = parts_[p];
    const int64_t turn = next_[p];
    if (turn == turns_ || (p > 0 && next_[p - 1] <= turn)) return never;
    double at = p > 0 ? ended_[p - 1][size_t(turn)] : 0;
    for (const int stage : part.stages)
      if (!part.sends() && int(p) == first_[size_t(stage)] &&
          turn - next_[size_t(last_[size_t(stage)])] >= std::max(1, limit_[size_t(stage)]))
        return never;
    for (const int stage : part.stages)
      if (forward_first_ && !part.sends() && comes_back(p, size_t(stage)) &&
          next_[size_t(first_[size_t(stage)])] < turns_)
        return never;
    for (const double* free : streams(part)) at = std::max(at, *free);
    return at;
  }

  /// Whether the part is a stage's backward pass.
  bool comes_back(size_t p, size_t stage) const { return int(p) == last_[stage] && first_[stage] < last_[stage]; }

  /// Of those that can begin first, what is sent, and then the one nearest to the end of its turn.
  void take_next() {
    size_t best = parts_.size();
    double begin = never;
    for (size_t part = parts_.size(); part-- > 0;) {
      const double at = ready(part);
      const bool sooner = at < begin || (at == begin && at < never && parts_[part].sends() && !parts_[best].sends());
      if (sooner) begin = at, best = part;
    }
    HETSYNTH_CHECK(best < parts_.size(), "a pipeline has always a part to go on with");
    const double end = begin + parts_[best].seconds;
    for (double* free : streams(parts_[best])) *free = end;
    ended_[best].push_back(end);
    out_.order.push_back({int(best), next_[best]++});
    out_.seconds = std::max(out_.seconds, end);
  }

  static constexpr double never = std::numeric_limits<double>::infinity();
  const std::vector<PartCost>& parts_;
  const int64_t turns_;
  const std::vector<int> limit_;  ///< by stage: turns under way
  const Sending mode_;
  const bool forward_first_;
  std::vector<int64_t> next_;                                               ///< by part: its next turn
  std::vector<std::vector<double>> ended_;                                  ///< by part and turn
  std::vector<double> computing_, sending_, receiving_, rising_, falling_;  ///< by stage: free since then
  std::vector<int> first_, last_;                                           ///< by stage: its parts that compute
  TurnOrder out_;
};

}  // namespace

TurnOrder one_forward_one_backward(const std::vector<PartCost>& parts, int64_t turns, const std::vector<int>& under_way,
                                   Sending sending) {
  return ListScheduling(parts, turns, under_way, sending, false).run();
}

TurnOrder all_forward_then_backward(const std::vector<PartCost>& parts, int64_t turns, int stages, Sending sending) {
  return ListScheduling(parts, turns, std::vector<int>(size_t(stages), int(turns)), sending, true).run();
}

}  // namespace hetsynth::synth
