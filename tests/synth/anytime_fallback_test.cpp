// Plans at hand early: each restriction admits what the one before it does, and the whole space what both do.
#include "synth/planner/anytime_fallback.h"

#include <gmock/gmock.h>

#include "programs.h"
#include "synth/baselines/baselines.h"

namespace hetsynth::synth {
namespace {

using namespace testing_support;

TEST(AnytimeFallback, LiesBetweenDataParallelismAndTheBestPlan) {
  const Program program = mlp(512, {256, 512, 256, 128});
  for (const double latency : {1e-7, 1e-5}) {
    const Problem problem(program, cluster_of_speeds({1e10, 1e10, 2e10, 2e10}, 1e9, latency));
    const AtShares at(problem, RatioRule::proportional);
    const auto cost = [&](const Choices& choices) { return total_cost(problem, at.conversions, at.shares, choices); };
    const std::vector<Pins> restrictions = quick_restrictions(problem);
    ASSERT_EQ(restrictions.size(), 2u);
    const Picoseconds updates = cost(at.cheapest(restrictions[0])), wider = cost(at.cheapest(restrictions[1]));
    EXPECT_LE(updates, cost(data_parallel_choices(problem)));
    EXPECT_LE(wider, updates);
    EXPECT_LE(cost(at.cheapest({})), wider);
    EXPECT_LT(restrictions[1].size(), program.nodes.size());
  }
}

}  // namespace
}  // namespace hetsynth::synth
