#include "synth/stages/peers/pipeline_contest.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dsl/spmd/buckets.h"
#include "synth/schedule/lower.h"
#include "synth/schedule/memory_floor.h"
#include "synth/schedule/price.h"
#include "synth/stages/staged_prediction.h"
#include "synth/support/parameters.h"

namespace hetsynth::synth {
namespace {

/// How much longer a schedule may be than the shortest one to be simulated.
constexpr double worth = 1.1;

}  // namespace

StagedStep staged_step(const std::shared_ptr<const TurnedStep>& step, const Cluster& cluster, const SpmdProgram& group,
                       const StageCuts& cuts) {
  const Program& program = *step->program;
  StagedStep out{step, cuts.stages(), nullptr, staged_plan(program, group, step->positions, cuts), {}, 0};
  tell_hosts(cluster, &out.program);
  if (sending_of(cluster) == Sending::both_ways) out.program = with_buckets(program, out.program);
  const int axes = std::max(1, int(group.mesh.axes.size()));
  out.problem = std::make_shared<const Problem>(step->analysis(axes), cluster, out.program.mesh);
  const std::vector<InstructionPrice> prices = price_instructions(*out.problem, out.program);
  out.parts = part_costs(program, out.program, prices);
  out.besides = seconds_besides(program, out.program, prices);
  return out;
}

bool PipelineContest::enter(const StagedStep& staged, const TurnOrder& order) {
  const double seconds = order.seconds + staged.besides;
  if (!entries_.empty() && seconds > entries_.front().seconds * worth) return true;
  Entry entry{staged, {}, seconds};
  entry.staged.program.schedules[0].order = order.order;
  entry.memory = memory_of_stages(*staged.problem, entry.staged.program);
  const int devices = int(entry.memory.size()) / staged.stages;
  if (const int full = fullest_stage(*staged.problem, entry.memory, devices); full >= 0) {
    const auto of_stage = entry.memory.begin() + full * devices;
    const DevicePrediction& fullest =
        *std::max_element(of_stage, of_stage + devices, [](auto& a, auto& b) { return a.fullness() < b.fullness(); });
    refuse(fmt::format("stage {} of {} does not fit into the memory of device {} ({} turns): {} needed", full,
                       staged.stages, fullest.device, staged.step->turns, bytes_text(double(fullest.memory_bytes))));
    return false;
  }
  entries_.insert(std::ranges::upper_bound(entries_, seconds, {}, &Entry::seconds), std::move(entry));
  if (entries_.size() > most_simulated_pipelines) entries_.pop_back();
  return true;
}

void PipelineContest::enter(const std::shared_ptr<const TurnedStep>& step, Plan plan) {
  take(*step, 1, std::move(plan));
}

void PipelineContest::refuse(const std::string& why) {
  if (out_.why_not.empty()) out_.why_not = why;
}

void PipelineContest::take(const TurnedStep& step, int stages, Plan plan) {
  if (out_.plan && out_.plan->prediction.step_seconds <= plan.prediction.step_seconds) return;
  out_.plan = std::move(plan);
  out_.step = step.turns > 1 ? step.program : nullptr;
  out_.turns = step.turns;
  out_.stages = stages;
}

PeerPlan PipelineContest::result() && {
  for (const Entry& entry : entries_) {
    if (entry.seconds > entries_.front().seconds * worth) break;
    const Problem& problem = *entry.staged.problem;
    take(*entry.staged.step, entry.staged.stages,
         pipeline_plan(problem, entry.staged.program, entry.memory, problem.cluster));
  }
  if (out_.plan) out_.why_not.clear();
  return std::move(out_);
}

}  // namespace hetsynth::synth
