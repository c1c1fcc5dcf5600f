// Other shares of a plan's own program: the same program, no slower anywhere, and what a search at those speeds finds.
#include "synth/planner/new_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "programs.h"
#include "synth/planner/synthesize.h"

namespace hetsynth {
namespace {

using namespace testing_support;

Program layers() { return mlp(512, {64, 128, 96, 32}); }

double share_of(const Plan& plan, size_t device) { return plan.prediction.devices[device].share; }

TEST(NewShares, AtThePlannedSpeedsThereIsNothingToGain) {
  const Program program = layers();
  for (const std::vector<double>& speeds : {std::vector<double>{1e9, 1e9, 1e9}, {3e9, 1e9, 2e9}, {1e9, 1e10}}) {
    const Cluster cluster = cluster_of_speeds(speeds, 1e10);
    const Plan plan = synthesize(program, cluster);
    const auto again = with_new_shares(program, plan, cluster);
    ASSERT_TRUE(again);
    EXPECT_NEAR(again->prediction.step_seconds, plan.prediction.step_seconds, 1e-9);
  }
}

TEST(NewShares, WhoBecomesSlowerGetsLessOfTheSameProgram) {
  const Program program = layers();
  const Plan plan = synthesize(program, cluster_of_speeds({1e9, 1e9, 1e9}, 1e10));
  const Cluster slower = cluster_of_speeds({1e9, 0.5e9, 1e9}, 1e10);
  const auto next = with_new_shares(program, plan, slower);
  ASSERT_TRUE(next);
  EXPECT_TRUE(same_but_for_bounds(plan.program, next->program));
  EXPECT_FALSE(plan.program == next->program);
  EXPECT_LT(next->prediction.step_seconds, 0.75 * predicted_on(program, plan, slower).step_seconds);
  EXPECT_NEAR(share_of(*next, 1), 0.2, 0.02);
  EXPECT_NEAR(share_of(*next, 0), 0.4, 0.02);
}

/// At random speeds: never slower than the plan as it was, the same program, and within 2 % of a plan that is searched
/// for at those speeds and has the same program.
TEST(NewShares, AtRandomSpeedsTheyAreThoseOfASearch) {
  std::mt19937_64 random(71);
  int compared = 0;
  for (int i = 0; i < 60; ++i) {
    const Program program = mlp(64 << (random() % 4), {32, 64 << int64_t(random() % 3), 48});
    const size_t devices = 2 + random() % 4;
    const auto speeds = [&] {
      std::vector<double> out;
      for (size_t d = 0; d < devices; ++d) out.push_back(1e9 * double(1 + random() % 8));
      return out;
    };
    const Cluster before = cluster_of_speeds(speeds(), 3e9), after = cluster_of_speeds(speeds(), 3e9);
    const Plan plan = synthesize(program, before);
    const auto next = with_new_shares(program, plan, after);
    ASSERT_TRUE(next) << i;
    EXPECT_TRUE(same_but_for_bounds(plan.program, next->program)) << i;
    EXPECT_LE(next->prediction.step_seconds, predicted_on(program, plan, after).step_seconds) << i;
    const Plan searched = synthesize(program, after);
    if (!same_but_for_bounds(plan.program, searched.program)) continue;
    ++compared;
    EXPECT_LE(next->prediction.objective_seconds, 1.02 * searched.prediction.objective_seconds) << i;
  }
  EXPECT_GE(compared, 10);
}

/// A plan file need not say what is predicted.
TEST(NewShares, AreThoseOfAPlanWithoutPredictionsToo) {
  const Program program = layers();
  const Cluster cluster = cluster_of_speeds({1e9, 2e9}, 1e10), slower = cluster_of_speeds({1e9, 1e9}, 1e10);
  const Plan plan = synthesize(program, cluster);
  Plan silent = plan;
  silent.prediction = {};
  const Prediction told = predicted_on(program, plan, slower), found = predicted_on(program, silent, slower);
  EXPECT_EQ(found.step_seconds, told.step_seconds);
  ASSERT_EQ(found.devices.size(), 2u);
  for (size_t device = 0; device < 2; ++device) {
    EXPECT_EQ(found.devices[device].compute_seconds, told.devices[device].compute_seconds);
    EXPECT_EQ(found.devices[device].device, told.devices[device].device);
  }
  const auto next = with_new_shares(program, silent, slower);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->program, with_new_shares(program, plan, slower)->program);
}

TEST(NewShares, TwoAxesAreDividedAnewEach) {
  const Program program = layers();
  const auto cluster_of = [](std::vector<double> speeds) {
    Cluster out = cluster_of_speeds(speeds, 1e10);
    for (int i : {2, 3}) out.devices[size_t(i)].host = 1;
    out.hosts = {{"a", out.hosts[0].inside}, {"b", out.hosts[0].inside}};
    out.between = {1e9, 1e-5};
    return out;
  };
  SynthesisOptions options;
  options.pins.mesh = {2, 2};
  options.most_axes = 2;
  const Plan plan = synthesize(program, cluster_of({2e9, 2e9, 2e9, 2e9}), options);
  ASSERT_EQ(plan.program.mesh.axes.size(), 2u);
  const Cluster slower = cluster_of({2e9, 2e9, 1e9, 1e9});
  const auto next = with_new_shares(program, plan, slower);
  ASSERT_TRUE(next);
  EXPECT_TRUE(same_but_for_bounds(plan.program, next->program));
  EXPECT_LT(next->prediction.step_seconds, 0.95 * predicted_on(program, plan, slower).step_seconds);
  EXPECT_LT(share_of(*next, 2), share_of(*next, 0));
}

TEST(NewShares, ArePricedByWhatTheyHold) {
  // Memory: the device that becomes fast cannot hold what its speed would have it take.
  const Program program = mlp(4096, {64, 128, 32});
  const Cluster even = cluster_of_speeds({1e9, 1e9}, 1e10);
  const Plan plan = synthesize(program, even);
  const int64_t most = memory_to_fill(int64_t(1.2 * double(fullest(plan))));
  const Cluster fast = cluster_of_speeds({8e9, 1e9}, 1e10, 1e-6, {most, most});
  const auto next = with_new_shares(program, plan, fast);
  ASSERT_TRUE(next);
  EXPECT_GT(share_of(*next, 0), share_of(plan, 0));
  for (const DevicePrediction& device : next->prediction.devices) EXPECT_LE(device.fullness(), 1);
}

}  // namespace
}  // namespace hetsynth
