#include "synth/schedule/step_breakdown.h"

#include <numeric>

#include "synth/schedule/price.h"
#include "synth/schedule/timeline.h"

namespace hetsynth::synth {
void set_figures(const Problem& problem, const Plan& plan, Trial* trial) {
  const std::vector<InstructionPrice> prices = price_instructions(problem, plan.program);
  trial->step_seconds = plan.prediction.step_seconds;
  trial->compute_seconds = trial->communication_seconds = trial->hideable_seconds = 0;
  for (size_t i = 0; i < prices.size(); ++i) {
    (prices[i].communicates() ? trial->communication_seconds : trial->compute_seconds) += prices[i].seconds;
    const NodeId node = plan.program.values[size_t(plan.program.instructions[i].result)].node;
    if (prices[i].communicates() && problem.analysis->may_hide[size_t(node)])
      trial->hideable_seconds += prices[i].seconds;
  }
  const Unfolding unfolding = unfolding_of(problem, plan.program);
  trial->latency_seconds = std::accumulate(unfolding.latency.begin(), unfolding.latency.end(), 0.0);
}

}  // namespace hetsynth::synth
