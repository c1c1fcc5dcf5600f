#include "synth/stages/peers/pipeline_peers.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "synth/stages/peers/layerwise_pipeline.h"
#include "synth/stages/peers/turned_step.h"
#include "synth/stages/peers/uniform_pipelines.h"

namespace hetsynth {
namespace {

using namespace synth;

/// All that people try with some number of stages.
TriedTurns usual_steps(const Program& whole, const Cluster& cluster) {
  TriedTurns out;
  const auto devices = int(cluster.devices.size());
  const auto usual = [&](int64_t turns) {
    for (int stages = 2; stages <= devices; ++stages)
      if (devices % stages == 0 && usual_turns(turns, stages)) return true;
    return false;
  };
  for (const int64_t turns : possible_turns(whole))
    if (usual(turns))
      if (std::shared_ptr<const TurnedStep> step = turned_step(whole, turns)) out.steps.push_back(std::move(step));
  return out;
}

TriedTurns pinned_steps(const Program& whole, TurnCount count) {
  TriedTurns out;
  out.usual_alone = false;
  out.at_once = count.turns == 1;
  if (count.turns == 1)
    out.why_none = "its stages need several turns, and one is asked for";
  else if (count.last_apart)
    out.why_none = "its stages need turns that are alike, and " + text(count) + " are asked for";
  else if (std::shared_ptr<const TurnedStep> step = turned_step(whole, count.turns))
    out.steps = {std::move(step)};
  return out;
}

/// The plan in turns takes the place of the one at once where that is slower, or there is none.
void take_faster(std::vector<PeerPlan> turned, std::vector<PeerPlan>* out) {
  for (size_t i = 0; i < out->size(); ++i) {
    const std::optional<Plan>&plan = (*out)[i].plan, &other = turned[i].plan;
    const bool slower = plan && other && plan->prediction.step_seconds > other->prediction.step_seconds;
    if (slower || (!plan && (other || !turned[i].compared))) (*out)[i] = std::move(turned[i]);
  }
}

}  // namespace

std::vector<PeerPlan> pipeline_peers(const Program& whole, const Cluster& cluster, const PeerOptions& options) {
  TriedTurns turns;
  if (!options.stop.stopped())
    turns = options.pinned   ? pinned_steps(whole, options.turns)
            : options.stages ? usual_steps(whole, cluster)
                             : TriedTurns{};
  turns.stop = options.stop;
  turns.stages = options.stages;
  if (!options.stages) return {layerwise_pipeline(whole, cluster, turns)};
  std::vector<PeerPlan> out = uniform_pipelines(cluster, turns);
  out.push_back(layerwise_pipeline(whole, cluster, turns));
  return out;
}

std::vector<PeerPlan> all_peers(const Program& whole, const Cluster& cluster, const PeerOptions& options) {
  std::vector<PeerPlan> out;
  if (!options.pinned || !options.in_turns) out = peer_plans(whole, cluster, options.stop);
  if (options.in_turns) {
    const auto step = std::make_shared<const Program>(*options.in_turns);
    std::vector<PeerPlan> turned = peer_plans(*step, cluster, options.stop);
    for (PeerPlan& peer : turned) {
      peer.turns = options.turns.turns;
      peer.step = step;
    }
    if (out.empty())
      out = std::move(turned);
    else
      take_faster(std::move(turned), &out);
  }
  std::ranges::move(pipeline_peers(whole, cluster, options), std::back_inserter(out));
  return out;
}

}  // namespace hetsynth
