// Pipelines are simulated without being written out, and come to what they do written out.
#include "synth/schedule/overlapped_turns.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "dsl/cluster/cluster.h"
#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "synth/mesh/device_subsets.h"
#include "synth/planner/planned_step.h"

namespace hetsynth {
namespace {

/// Four devices alike on two hosts.
Cluster two_hosts(DeviceKind kind) {
  Cluster cluster = local_cluster(4);
  cluster.hosts.resize(2, cluster.hosts[0]);
  cluster.hosts[1].name = "other";
  cluster.between = {1e9, 1e-5};
  for (size_t d = 0; d < cluster.devices.size(); ++d) {
    Device& device = cluster.devices[d];
    device.kind = kind;
    device.host = d < 2 ? 0 : 1;
    device.declared = {1e9, 1e9};
    device.measured = {};
    device.memory_bytes = 0;
  }
  return cluster;
}

/// Many parameters, few activations, and a state that is carried through the turns.
Program deep_step() {
  Trace trace("model.cpp");
  run_builder(trace, [] {
    auto [x, y] = synthetic_batch(32, 64, 4);
    Tensor h = x;
    for (int layer = 0; layer < 6; ++layer)
      h = tanh(matmul(h, parameter("w" + std::to_string(layer), {64, 64}, normal(0.1))));
    minimize(cross_entropy(matmul(h, parameter("last", {64, 4}, normal(0.1))), y), AdamW{.clip_norm = 1.0});
  });
  return differentiate(trace);
}

class OverlappedTurnsOf : public ::testing::TestWithParam<DeviceKind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, OverlappedTurnsOf, ::testing::Values(DeviceKind::cpu, DeviceKind::cuda));

TEST_P(OverlappedTurnsOf, AreSimulatedAsTheyAreWrittenOut) {
  const Cluster cluster = two_hosts(GetParam());
  for (const int stages : {2, 4}) {
    SynthesisOptions options;
    options.stages = stages;
    const PlannedStep step = synthesize_in_turns(deep_step(), cluster, options);
    const Prediction& predicted = step.plan.prediction;
    const SpmdProgram& program = step.plan.program;
    ASSERT_TRUE(step.program);
    ASSERT_FALSE(program.schedules.empty());
    std::vector<int> taken;
    for (const PlanDevice& device : step.plan.devices)
      taken.push_back(int(std::ranges::find(cluster.devices, device.name, &Device::name) - cluster.devices.begin()));
    const Cluster ranks = synth::restricted(cluster, taken);
    const Timeline written_out =
        overlap_turns(*step.program, program, price_instructions(*step.program, program, ranks),
                      unfolding_of(*step.program, program, ranks))
            .simulate();
    EXPECT_EQ(predicted.step_seconds, written_out.seconds) << stages;
    for (size_t d = 0; d < predicted.devices.size(); ++d) {
      EXPECT_DOUBLE_EQ(predicted.devices[d].compute_seconds, written_out.devices[d].compute_seconds) << stages;
      EXPECT_DOUBLE_EQ(predicted.devices[d].communication_seconds, written_out.devices[d].communication_seconds);
      EXPECT_NEAR(predicted.devices[d].hidden_seconds, written_out.devices[d].hidden_seconds, 1e-12) << stages;
    }
  }
}

}  // namespace
}  // namespace hetsynth
