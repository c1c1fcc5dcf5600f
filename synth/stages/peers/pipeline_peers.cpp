#include "synth/stages/peers/pipeline_peers.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "synth/stages/peers/layerwise_pipeline.h"
#include "synth/stages/peers/turned_step.h"
#include "synth/stages/peers/uniform_pipelines.h"

namespace hetsynth {

std::vector<PeerPlan> pipeline_peers(const Program& whole, const Cluster& cluster) {
  using namespace synth;
  std::set<int64_t> turns;
  const auto devices = int(cluster.devices.size());
  for (int stages = 2; stages <= devices; ++stages)
    if (devices % stages == 0)
      for (const int64_t usual : usual_turns(whole, stages)) turns.insert(usual);
  std::vector<std::shared_ptr<const TurnedStep>> steps;
  for (const int64_t count : turns)
    if (std::shared_ptr<const TurnedStep> step = turned_step(whole, count)) steps.push_back(std::move(step));
  std::vector<PeerPlan> out = uniform_pipelines(whole, cluster, steps);
  out.push_back(layerwise_pipeline(whole, cluster, steps));
  return out;
}

std::vector<PeerPlan> all_peers(const Program& whole, const Program* in_turns, int64_t turns, const Cluster& cluster) {
  std::vector<PeerPlan> out = peer_plans(whole, cluster);
  if (in_turns) {
    const auto step = std::make_shared<const Program>(*in_turns);
    std::vector<PeerPlan> turned = peer_plans(*step, cluster);
    for (size_t i = 0; i < out.size(); ++i) {
      std::optional<Plan>&plan = out[i].plan, &other = turned[i].plan;
      if (!other || (plan && plan->prediction.step_seconds <= other->prediction.step_seconds)) continue;
      out[i] = std::move(turned[i]);
      out[i].turns = turns;
      out[i].step = step;
    }
  }
  std::ranges::move(pipeline_peers(whole, cluster), std::back_inserter(out));
  return out;
}

}  // namespace hetsynth
