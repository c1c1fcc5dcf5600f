#include "synth/schedule/step_breakdown.h"

#include <limits>

#include "synth/schedule/price.h"
#include "synth/schedule/timeline.h"

namespace hetsynth::synth {
namespace {

Cluster with_latency_alone(Cluster cluster) {
  constexpr double unlimited = std::numeric_limits<double>::infinity();
  cluster.between.bandwidth_bytes_per_second = unlimited;
  for (Host& host : cluster.hosts) host.inside.bandwidth_bytes_per_second = unlimited;
  return cluster;
}

}  // namespace

void set_figures(const Problem& problem, const Plan& plan, Trial* trial) {
  const std::vector<InstructionPrice> prices = price_instructions(problem, plan.program);
  trial->step_seconds = plan.prediction.step_seconds;
  trial->compute_seconds = trial->communication_seconds = 0;
  bool any = false;
  for (const InstructionPrice& price : prices) {
    (price.communicates() ? trial->communication_seconds : trial->compute_seconds) += price.seconds;
    any = any || price.communicates();
  }
  trial->timeline_seconds = simulated_seconds(plan.program, prices, problem.cluster.devices);
  trial->latency_seconds = 0;
  if (!any) return;
  const Cluster fast = with_latency_alone(problem.cluster);
  const CommunicationCost latency = problem.cost.communication().over(fast);
  const Pricer pricer(problem, plan.program, &latency);
  for (size_t i = 0; i < prices.size(); ++i)
    if (prices[i].communicates()) trial->latency_seconds += pricer.price(plan.program.instructions[i]).seconds;
}

}  // namespace hetsynth::synth
