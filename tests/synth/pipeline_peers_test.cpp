// Pipelines as other systems make them: the textbook's time where it holds, stages of equal layers, and reasons where
// there is no plan.
#include "synth/stages/peers/pipeline_peers.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "dsl/spmd/hosts.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "programs.h"
#include "synth/baselines/baseline_plans.h"
#include "synth/planner/planned_step.h"
#include "synth/stages/peers/turned_step.h"
#include "synth/stages/stage_schedule.h"

namespace hetsynth {
namespace {

using namespace synth;
using namespace testing_support;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Equal layers; the loss is next to nothing beside them. `meet`: samples meet in a statistic.
Program chain(int layers, int64_t batch = 64, int64_t width = 256, bool meet = false) {
  Trace trace("chain.cpp");
  run_builder(trace, [&] {
    auto [samples, labels] = synthetic_batch(batch, width, 4);
    Tensor x = samples;
    for (int layer = 0; layer < layers; ++layer)
      x = matmul(x, parameter("w" + std::to_string(layer), {width, width}, normal(0.05)));
    if (meet) x = x - mean(square(x), {0}, true);
    minimize(mean(square(x)), SGD{.momentum = 0});
  });
  return differentiate(trace);
}

/// Devices that compute so slowly, and talk so fast, that products are all that takes time.
Cluster equal_devices(int count, int64_t bytes = 0) {
  Cluster cluster = cluster_of_speeds(std::vector<double>(size_t(count), 1e9), 1e18, 0,
                                      bytes > 0 ? std::vector<int64_t>(size_t(count), bytes) : std::vector<int64_t>{});
  for (Device& device : cluster.devices) {
    device.declared.memory_bytes_per_second = 1e15;
    device.declared.loop_flops_per_second = 1e15;
  }
  return cluster;
}

const PeerPlan& named(const std::vector<PeerPlan>& peers, const std::string& name) {
  for (const PeerPlan& peer : peers)
    if (peer.name == name) return peer;
  throw InternalError("no peer " + name);
}

/// Of a chain of equal stages without transfers: forward, and forward and backward of the last one, and backward.
std::vector<PartCost> equal_parts(int stages, double forward, double backward) {
  std::vector<PartCost> out;
  for (int stage = 0; stage + 1 < stages; ++stage) out.push_back({{stage}, {}, forward});
  out.push_back({{stages - 1}, {}, forward + backward});
  for (int stage = stages - 1; stage-- > 0;) out.push_back({{stage}, {}, backward});
  return out;
}

TEST(PipelinePeers, TakeTheTimeOfTheTextbook) {
  for (const int stages : {2, 3, 4, 8})
    for (const int64_t turns : {2, 4, 8, 16}) {
      const std::vector<PartCost> parts = equal_parts(stages, 1, 2);
      std::vector<int> under_way;
      for (int stage = 0; stage < stages; ++stage) under_way.push_back(stages - stage);
      const double wanted = double(turns + stages - 1) * 3;
      const std::string what = std::to_string(stages) + " stages, " + std::to_string(turns) + " turns";
      EXPECT_DOUBLE_EQ(all_forward_then_backward(parts, turns, stages, Sending::in_place).seconds, wanted) << what;
      EXPECT_DOUBLE_EQ(one_forward_one_backward(parts, turns, under_way, Sending::in_place).seconds, wanted) << what;
    }
}

TEST(PipelinePeers, GPipeTakesAllForwardPassesFirst) {
  constexpr int stages = 3;
  const std::vector<PartCost> parts = equal_parts(stages, 1, 2);
  const TurnOrder order = all_forward_then_backward(parts, 4, stages, Sending::in_place);
  std::vector<std::vector<int>> by_stage(stages);
  for (const LoopSchedule::Run& run : order.order)
    by_stage[size_t(parts[size_t(run.part)].stages[0])].push_back(run.part);
  EXPECT_THAT(by_stage[0], ElementsAre(0, 0, 0, 0, 4, 4, 4, 4));
  EXPECT_THAT(by_stage[1], ElementsAre(1, 1, 1, 1, 3, 3, 3, 3));
  EXPECT_THAT(by_stage[2], ElementsAre(2, 2, 2, 2));
}

/// A layer of the first stage has two products a turn, since nobody asks for the gradient of the input; others three.
TEST(PipelinePeers, AChainOfEqualLayersTakesWhatTheFormulaSays) {
  constexpr int layers = 8;
  constexpr int64_t batch = 64, width = 256;
  const Program whole = chain(layers, batch, width);
  for (const int devices : {2, 4}) {
    const std::vector<PeerPlan> peers = pipeline_peers(whole, equal_devices(devices));
    for (const char* name : {"GPipe (equal stages)", "1F1B (equal stages)"}) {
      const PeerPlan& peer = named(peers, name);
      ASSERT_TRUE(peer.plan) << name << ": " << peer.why_not;
      EXPECT_EQ(peer.stages, 2) << name << ": fewer stages wait less";
      const double samples = double(batch) / double(peer.turns) / (double(devices) / peer.stages);
      const double product = 2 * samples * width * width / 1e9;
      const double stage = 3 * product * layers / peer.stages;
      const double seconds = peer.plan->prediction.step_seconds;
      // A transfer of cpu devices waits until both sides have time, which costs GPipe up to a turn.
      const int waits = peer.name.starts_with("GPipe") ? 1 : 0;
      EXPECT_LE(seconds, double(peer.turns + peer.stages - 1 + waits) * stage * 1.01) << name;
      EXPECT_GE(seconds, double(peer.turns + peer.stages - 1) * (stage - product) * 0.99) << name;
    }
  }
}

TEST(PipelinePeers, StagesHaveEqualNumbersOfLayers) {
  const std::shared_ptr<const TurnedStep> step = turned_step(chain(8), 4);
  ASSERT_TRUE(step);
  EXPECT_EQ(step->layer_count(), 8);
  EXPECT_EQ(step->samples_of_a_turn(), 16);
  CutPoints cuts;
  for (int at = 1; at < step->positions.count; ++at) {
    cuts.at.push_back(at);
    cuts.bytes.push_back(1);
  }
  for (const int stages : {2, 4, 8}) {
    const std::optional<StageCuts> equal = balanced_cuts(step->layers, cuts, stages);
    ASSERT_TRUE(equal);
    for (int stage = 0, begin = 0; stage < stages; begin = equal->ends[size_t(stage++)]) {
      double layers = 0;
      for (int at = begin; at < equal->ends[size_t(stage)]; ++at) layers += step->layers[size_t(at)];
      EXPECT_EQ(layers, 8 / stages) << stages << " stages, stage " << stage;
    }
  }
  EXPECT_FALSE(balanced_cuts(step->layers, {{1}, {1}, {1}}, 3)) << "two cuts are needed";
}

TEST(PipelinePeers, ACutLiesWhereLessIsSent) {
  const std::vector<double> weights(16, 1);
  EXPECT_THAT(balanced_cuts(weights, {{7, 8, 10}, {4, 9, 2}, {4, 9, 2}}, 2)->ends, ElementsAre(10, 16));
  EXPECT_THAT(balanced_cuts(weights, {{7, 8, 11}, {9, 9, 2}, {9, 9, 2}}, 2)->ends, ElementsAre(8, 16))
      << "11 is too far";
}

TEST(PipelinePeers, AreEquivalentToTheModelAndNeverFasterThanThePlanner) {
  for (const Cluster& cluster :
       {cluster_of_speeds({1e10, 1e10, 1e10, 1e10}), cluster_of_speeds({3e10, 1e10, 1e10, 2e10}, 1e8, 1e-5)}) {
    const Program whole = chain(6, 32, 64);
    SynthesisOptions full, normal;
    full.effort = Effort::full;
    full.most_axes = normal.most_axes = usual_axes;
    const double own = synthesize_in_turns(whole, cluster, full).plan.prediction.step_seconds;
    const double usual = synthesize_in_turns(whole, cluster, normal).plan.prediction.step_seconds;
    const std::vector<PeerPlan> peers = pipeline_peers(whole, cluster);
    EXPECT_EQ(peers.size(), 3u);
    for (const PeerPlan& peer : peers) {
      ASSERT_TRUE(peer.plan) << peer.name << ": " << peer.why_not;
      EXPECT_GE(peer.plan->prediction.step_seconds, own * (1 - 1e-9)) << peer.name;
      if (peer.stages == 1 && peer.turns == 1) {
        EXPECT_GE(peer.plan->prediction.step_seconds, usual * (1 - 1e-9)) << peer.name;
      }
      EXPECT_EQ(peer.plan->program.mesh.device_count(), 4) << peer.name;
      const Program& step = peer.step ? *peer.step : whole;
      if (peer.stages == 1) {
        EXPECT_EQ(compare_with_reference(step, peer.plan->program, 5), "") << peer.name;
      }
    }
  }
}

/// It cuts the samples of a turn, and adds gradients up behind the turns.
TEST(PipelinePeers, DataParallelismOfAStepInTurnsCutsItsSamples) {
  const std::shared_ptr<const TurnedStep> step = turned_step(chain(4), 4);
  ASSERT_TRUE(step);
  const double alone = single_device_plan(*step->program, equal_devices(4)).prediction.step_seconds;
  const Plan plan = data_parallel_plan(*step->program, equal_devices(4));
  EXPECT_NEAR(plan.prediction.step_seconds, alone / 4, alone / 100);
  int sums = 0;
  for (const Instruction& instruction : plan.program.instructions) {
    if (instruction.opcode != Opcode::all_reduce) continue;
    EXPECT_EQ(loop_of(*step->program, plan.program, instruction), -1);
    sums += element_count((*step->program)[plan.program.values[size_t(instruction.result)].node].type.shape) > 1;
  }
  EXPECT_EQ(sums, 4);
}

TEST(PipelinePeers, PlansNameTheHostsThatCollectivesGoOver) {
  Cluster cluster = equal_devices(8);
  cluster.hosts.assign(4, Host{"host", Link{1e10, 1e-6}});
  for (int host = 0; host < 4; ++host) {
    cluster.hosts[size_t(host)].name += std::to_string(host);
    for (int device : {2 * host, 2 * host + 1}) cluster.devices[size_t(device)].host = host;
  }
  cluster.between = {1e6, 1e-4};
  int hierarchical = 0;
  for (const PeerPlan& peer : pipeline_peers(chain(2, 8), cluster)) {
    ASSERT_TRUE(peer.plan) << peer.name << ": " << peer.why_not;
    for (const Instruction& instruction : peer.plan->program.instructions) {
      if (instruction.realisation != Realisation::hierarchical) continue;
      EXPECT_EQ(why_not_hierarchical(peer.plan->program, instruction), "") << peer.name;
      hierarchical += peer.stages > 1;
    }
  }
  EXPECT_GT(hierarchical, 0);
}

/// Gradients behind a checkpoint read what it makes again: both lie on one stage.
TEST(PipelinePeers, ACheckpointIsNotCutFromTheGradientsThatReadIt) {
  Trace trace("chain.cpp");
  run_builder(trace, [] {
    auto [samples, labels] = synthetic_batch(16, 32, 4);
    Tensor x = samples;
    for (int layer = 0; layer < 4; ++layer)
      x = checkpoint([&] { return tanh(matmul(x, parameter("w" + std::to_string(layer), {32, 32}, normal(0.1)))); });
    minimize(mean(square(matmul(square(x), parameter("head", {32, 32}, normal(0.1))))), SGD{.momentum = 0});
  });
  const Program whole = differentiate(trace);
  const std::vector<PeerPlan> peers = pipeline_peers(whole, equal_devices(4));
  for (const PeerPlan& peer : peers) {
    ASSERT_TRUE(peer.plan) << peer.name << ": " << peer.why_not;
    EXPECT_TRUE(peer.stages > 1 || peer.name == "Galvatron (stages)") << peer.name;
  }
}

TEST(PipelinePeers, SayWhyTheyDoNotFit) {
  for (const PeerPlan& peer : pipeline_peers(chain(4), equal_devices(2, 100'000))) {
    EXPECT_FALSE(peer.plan) << peer.name;
    EXPECT_FALSE(peer.why_not.empty()) << peer.name;
  }
  EXPECT_THAT(pipeline_peers(chain(4), equal_devices(2, 100'000)).front().why_not,
              HasSubstr("stage 0 of 2 does not fit into the memory of device"));
}

TEST(PipelinePeers, SayWhyThereAreNoStages) {
  EXPECT_EQ(pipeline_peers(chain(4, 64, 256, true), equal_devices(2)).front().why_not,
            "the step cannot be taken in turns");
  EXPECT_EQ(pipeline_peers(chain(1), equal_devices(2)).front().why_not,
            "no number of stages divides devices, layers and samples");
}

}  // namespace
}  // namespace hetsynth
