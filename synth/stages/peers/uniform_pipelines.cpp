#include "synth/stages/peers/uniform_pipelines.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "synth/baselines/baselines.h"
#include "synth/stages/peers/pipeline_contest.h"

namespace hetsynth::synth {
namespace {

/// Each stage's devices cut the samples of a turn evenly and have its parameters whole; none if there are fewer samples
/// than devices, or fewer cuts than stages.
std::vector<std::pair<StagedStep, StageCuts>> in_equal_stages(const std::shared_ptr<const TurnedStep>& step,
                                                              const Cluster& cluster, int stages) {
  const Cluster one = first_group(cluster, stages);
  const bool alone = one.devices.size() == 1;
  if (step->samples_of_a_turn() < int64_t(one.devices.size())) return {};
  const Problem problem(step->analysis(alone ? 0 : 1), one, flat_mesh(one, "data"));
  const AtShares even(problem, RatioRule::even);
  const Choices choices = alone ? replicated_choices(problem) : data_parallel_choices(problem);
  const SpmdProgram group = even.program(choices);
  const CutPoints cuts = cut_points(*step->program, group, Pricer(problem, group), step->positions);
  std::vector<std::pair<StagedStep, StageCuts>> out;
  for (const std::optional<StageCuts>& equal :
       {balanced_cuts(step->layers, cuts, stages), balanced_ring(*step, step->layers, cuts, stages)})
    if (equal) out.emplace_back(staged_step(step, cluster, group, *equal), *equal);
  return out;
}

}  // namespace

std::vector<PeerPlan> uniform_pipelines(const Cluster& cluster, const TriedTurns& turns) {
  constexpr const char *gpipe_name = "GPipe (equal stages)", *alternating_name = "1F1B (equal stages)";
  PipelineContest gpipe(gpipe_name), alternating(alternating_name);
  const auto devices = int(cluster.devices.size());
  const Sending sending = sending_of(cluster);
  for (int stages = 2; stages <= devices; ++stages) {
    if (devices % stages != 0) continue;
    for (const std::shared_ptr<const TurnedStep>& step : turns.steps) {
      if (turns.usual_alone && !usual_turns(step->turns, stages)) continue;
      if (step->layer_count() < stages || turns.stop.stopped()) continue;
      for (const auto& [staged, cuts] : in_equal_stages(step, cluster, stages)) {
        gpipe.enter(staged, all_forward_then_backward(staged.parts, step->turns, stages, sending));
        alternating.enter(staged,
                          one_forward_one_backward(staged.parts, step->turns, one_for_each_behind(cuts), sending));
      }
    }
  }
  if (turns.stop.stopped()) return {stopped_peer(gpipe_name), stopped_peer(alternating_name)};
  std::vector<PeerPlan> out;
  for (PipelineContest* contest : {&gpipe, &alternating}) {
    contest->refuse(turns.steps.empty() ? turns.why_none : "no number of stages divides devices, layers and samples");
    out.push_back(std::move(*contest).result());
  }
  return out;
}

}  // namespace hetsynth::synth
