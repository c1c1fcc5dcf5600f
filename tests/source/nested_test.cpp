// The generated text of plans that cut one dimension along two axes: it agrees with its plan on both kinds of devices,
// and one whose boundaries were changed does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "synth/baselines/baseline_plans.h"
#include "synth/baselines/peers/peers.h"
#include "tests/codegen/harness.h"
#include "tests/codegen/models.h"
#include "tests/source/fixture.h"
#include "tests/support/nested_plan.h"
#include "verify/verify.h"

namespace hetsynth::test {
namespace {

const std::vector<double> speeds{1e9, 3e9, 2e9, 1e9, 1e9, 2e9};

/// Gradients all-reduced; and parameters gathered, gradients scattered.
std::vector<SpmdProgram> plans_of(const Program& program, const Cluster& cluster) {
  std::vector<SpmdProgram> out{nested_plan(data_parallel_plan(program, cluster, RatioRule::proportional).program, 2)};
  for (const PeerPlan& peer : peer_plans(program, cluster))
    if (peer.name.find("ZeRO-3") != std::string::npos) out.push_back(nested_plan(peer.plan->program, 3));
  return out;
}

void expect_agrees(const Generated& g) {
  for (int rank = 0; rank < int(g.devices.size()); ++rank) {
    const SourceCheck result = check(g, rank);
    EXPECT_EQ(result.verdict, Verdict::proved)
        << "rank " << rank << " line " << result.line << ": " << result.summary << "\n"
        << g.devices[size_t(rank)].files.front().text;
  }
}

TEST(NestedSource, AgreesWithItsPlan) {
  const Program program = mlp_program();
  for (bool gpus : {false, true}) {
    const Cluster cluster = gpus ? cuda_devices(speeds) : unequal_cluster(speeds);
    const std::vector<SpmdProgram> plans = plans_of(program, cluster);
    ASSERT_EQ(plans.size(), 2u);
    for (const SpmdProgram& plan : plans) {
      const Verification proof = verify(program, plan);
      EXPECT_EQ(proof.verdict, Verdict::proved) << proof.summary << "\n" << text(plan, program);
      expect_agrees(gpus ? generated_for_cuda(program, plan, cluster) : generated(program, plan, cluster));
    }
  }
}

/// The boundaries that collectives of cores are called with, one after the other.
TEST(NestedSource, EveryBoundaryCounts) {
  const Program program = mlp_program();
  const Cluster cluster = unequal_cluster(speeds);
  const Generated g = generated(program, plans_of(program, cluster).back(), cluster);
  const int rank = 3;
  const std::string& text = g.devices[rank].files.front().text;
  int damaged = 0;
  const std::regex table("static const long bounds_[^{]*\\{([^}]*)\\}");
  for (auto at = std::sregex_iterator(text.begin(), text.end(), table); at != std::sregex_iterator(); ++at) {
    std::string wrong = text;
    const size_t last = size_t(at->position(1) + at->length(1)) - 1;
    wrong[last] = wrong[last] == '9' ? '8' : char(wrong[last] + 1);
    EXPECT_EQ(check(g, rank, wrong).verdict, Verdict::refuted) << at->str();
    ++damaged;
  }
  EXPECT_GT(damaged, 3);
}

}  // namespace
}  // namespace hetsynth::test
