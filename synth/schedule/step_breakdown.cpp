#include "synth/schedule/step_breakdown.h"

#include <numeric>

#include "synth/schedule/price.h"
#include "synth/schedule/timeline.h"

namespace hetsynth::synth {
void set_figures(const Problem& problem, const Plan& plan, Trial* trial) {
  const std::vector<InstructionPrice> prices = price_instructions(problem, plan.program);
  trial->step_seconds = plan.prediction.step_seconds;
  trial->compute_seconds = trial->communication_seconds = 0;
  for (const InstructionPrice& price : prices)
    (price.communicates() ? trial->communication_seconds : trial->compute_seconds) += price.seconds;
  const Unfolding unfolding = unfolding_of(problem, plan.program);
  trial->timeline_seconds = simulated_seconds(plan.program, prices, unfolding);
  trial->latency_seconds = std::accumulate(unfolding.latency.begin(), unfolding.latency.end(), 0.0);
}

}  // namespace hetsynth::synth
