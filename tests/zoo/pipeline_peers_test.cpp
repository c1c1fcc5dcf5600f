// Pipelines as other systems make them are programs like any other: proved, and trained on ranks of this machine.
#include "synth/stages/peers/pipeline_peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "synth/planner/planned_step.h"
#include "tests/support/test_name.h"
#include "tests/support/zoo/walk.h"
#include "verify/verify.h"

namespace hetsynth::testing {
namespace {

Cluster four_cores() {
  Cluster out = local_cluster(4);
  for (Device& device : out.devices) device.declared = {2e10, 1e10};
  return out;
}

class PipelinePeers : public ::testing::TestWithParam<ListedModel> {};
INSTANTIATE_TEST_SUITE_P(Models, PipelinePeers, ::testing::ValuesIn(models_with_turns()),
                         [](const auto& info) { return test_name(info.param.name); });

TEST_P(PipelinePeers, AreProvedAndTrainAlikeAndAreNeverFaster) {
  const TracedModel traced = trace_model(GetParam(), GetParam().tiny);
  const Cluster cluster = four_cores();
  SynthesisOptions options;
  options.most_axes = synth::usual_axes;
  const double own = synthesize_in_turns(traced.program, cluster, options).plan.prediction.step_seconds;
  int pipelines = 0;
  for (const PeerPlan& peer : pipeline_peers(traced.program, cluster)) {
    if (!peer.plan) {
      EXPECT_NE(peer.why_not, "") << peer.name;
      continue;
    }
    pipelines += peer.stages > 1 ? 1 : 0;
    EXPECT_GE(peer.plan->prediction.step_seconds, own * (1 - 1e-9)) << peer.name;
    const Program& step = peer.step ? *peer.step : traced.program;
    const Verification proof = verify(step, peer.plan->program);
    EXPECT_EQ(proof.verdict, Verdict::proved) << peer.name << ": " << proof.summary;
    EXPECT_LT(train_on_both(step, *peer.plan, cluster, 2).largest_difference(), loss_bound) << peer.name;
  }
  EXPECT_GT(pipelines, 0);
}

}  // namespace
}  // namespace hetsynth::testing
