// Plans modelled on other systems are programs like any other: the verifier proves them.
#include <gtest/gtest.h>

#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "synth/stages/peers/pipeline_peers.h"
#include "verify/verify.h"

namespace hetsynth {
namespace {

Cluster unequal_cores() {
  Cluster cluster = local_cluster(4);
  for (int i : {0, 1, 2, 3}) cluster.devices[size_t(i)].declared = {i == 0 ? 3e10 : 1e10, 1e10};
  return cluster;
}

Program model() {
  Trace trace("model.cpp");
  run_builder(trace, [] {
    auto [tokens, targets] = text_batch(8, 8);
    Tensor table = parameter("table", {256, 16}, normal(0.02));
    Tensor x = embedding(table, tokens);
    Tensor h = relu(einsum("btc,cf->btf", x, parameter("up", {16, 64}, normal(0.1))));
    Tensor y = x + einsum("btf,fc->btc", h, parameter("down", {64, 16}, normal(0.1)));
    minimize(cross_entropy(einsum("btc,vc->btv", y, table), targets), AdamW{.clip_norm = 1.0});
  });
  return differentiate(trace);
}

TEST(PeerPlans, AreProved) {
  const Program program = model();
  const std::vector<PeerPlan> peers = all_peers(program, unequal_cores());
  EXPECT_EQ(peers.size(), 12u);
  for (const PeerPlan& peer : peers) {
    ASSERT_TRUE(peer.plan) << peer.name << ": " << peer.why_not;
    const Verification proof = verify(peer.step ? *peer.step : program, peer.plan->program);
    EXPECT_EQ(proof.verdict, Verdict::proved) << peer.name << ": " << proof.summary;
  }
}

}  // namespace
}  // namespace hetsynth
