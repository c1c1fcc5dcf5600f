// The whole stage: plans that are known to be right emerge, whatever the cluster, and what cannot be done is said.
#include "synth/planner/synthesize.h"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "programs.h"
#include "random_programs.h"

namespace hetsynth {
namespace {

using namespace testing_support;
using testing::HasSubstr;

RC_GTEST_PROP(Synthesize, IsNeverSlowerThanTheBaselinesAndComputesTheReference, ()) {
  Program program = random_program(6);
  Cluster cluster = random_cluster();
  Plan plan = synthesize(program, cluster);
  RC_LOG() << text(plan.program, program);
  RC_ASSERT(plan.prediction.optimal);
  RC_ASSERT(plan.prediction.baselines.size() == 3u);
  for (const RatioRule rule : {RatioRule::even, RatioRule::proportional})  // picoseconds of rounding
    RC_ASSERT(plan.prediction.objective_seconds <=
              data_parallel_plan(program, cluster, rule).prediction.objective_seconds + 1e-10);
  RC_ASSERT(compare_with_reference(program, plan.program, 11) == "");
}

TEST(Synthesize, SameInputSamePlan) {
  Program program = mlp(16, {20, 30, 10});
  Cluster cluster = cluster_of_speeds({1e9, 3e9, 2e9});
  EXPECT_EQ(synthesize(program, cluster).program, synthesize(program, cluster).program);
}

TEST(Synthesize, TellsWhatEveryStrategyTookAndGained) {
  const Program program = mlp(64, {32, 64, 32});
  const Cluster cluster = cluster_of_speeds({1e9, 3e9, 2e9});
  std::vector<StrategyRecord> strategies;
  SynthesisOptions options;
  options.strategies = &strategies;
  const Plan plan = synthesize(program, cluster, options);
  EXPECT_EQ(plan.program, synthesize(program, cluster).program) << "being told changes nothing";
  std::vector<std::string> names;
  int improved = 0;
  int64_t told = 0;
  for (const StrategyRecord& record : strategies) {
    names.push_back(record.name);
    improved += record.improved;
    told += record.searches;
    EXPECT_GE(record.runs, 1) << record.name;
    EXPECT_GE(record.seconds, 0) << record.name;
    EXPECT_LE(record.improved, record.runs) << record.name;
  }
  EXPECT_EQ(names.front(), "bounds of meshes");
  EXPECT_EQ(names.back(), "baselines");
  EXPECT_THAT(names, testing::Contains("other starts"));
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size()) << "each is told of once";
  EXPECT_GE(improved, 1) << "some strategy found the plan";
  EXPECT_GE(told, 1) << "searches are counted where they are made";
}

/// Work is counted, not time: the same on every machine and at every load.
TEST(Synthesize, EffortIsTheSameWorkEachTime) {
  const Program program = mlp(8, std::vector<int64_t>(40, 24));
  const Cluster cluster = cluster_of_speeds({1e9, 2e9, 3e9}, 1e12, 1e-9);
  std::map<Effort, double> steps;
  int64_t least_work = 0;
  for (const Effort effort : {Effort::quick, Effort::normal, Effort::full}) {
    std::vector<StrategyRecord> first, second;
    SynthesisOptions options;
    options.most_axes = 2;
    options.drop_devices = true;
    options.effort = effort;
    options.strategies = &first;
    const Plan plan = synthesize(program, cluster, options);
    options.strategies = &second;
    EXPECT_EQ(synthesize(program, cluster, options).program, plan.program);
    ASSERT_EQ(first.size(), second.size());
    int64_t work = 0;
    for (size_t i = 0; i < first.size(); ++i) {
      EXPECT_EQ(first[i].work, second[i].work) << first[i].name;
      work += first[i].work;
    }
    EXPECT_GT(work, least_work) << "more effort is no less work";
    least_work = work - 1;
    steps[effort] = plan.prediction.objective_seconds;
  }
  EXPECT_LE(steps[Effort::full], steps[Effort::normal]);
  EXPECT_LE(steps[Effort::normal], steps[Effort::quick]);
}

TEST(Budget, WorkEndsPlanningOnceThereIsAPlan) {
  for (const Effort effort : {Effort::quick, Effort::normal}) {
    synth::Budget budget({}, {}, effort);
    budget.stop().spend(synth::most_work(effort));
    EXPECT_FALSE(budget.spent()) << "there is no plan yet";
    budget.found(1, 0);
    EXPECT_TRUE(budget.spent());
    EXPECT_TRUE(budget.stop().stopped());
  }
  synth::Budget full({}, {}, Effort::full);
  full.found(1, 0);
  full.stop().spend(int64_t(1) << 60);
  EXPECT_FALSE(full.spent());
}

TEST(Budget, WorkEndsPlanningWithoutAPlanIfThatIsAskedFor) {
  synth::Budget budget({}, {}, Effort::quick, true);
  EXPECT_FALSE(budget.spent());
  budget.stop().spend(synth::most_work(Effort::quick) - 1);
  EXPECT_FALSE(budget.spent());
  EXPECT_FALSE(budget.gave_up());
  budget.stop().spend(1);
  EXPECT_TRUE(budget.spent());
  EXPECT_TRUE(budget.gave_up());
  // Where time ends first there may be a plan that needs no search.
  synth::Budget late(0.0, {}, Effort::quick, true);
  EXPECT_TRUE(late.spent());
  EXPECT_FALSE(late.gave_up());
}

TEST(Budget, PatienceBeginsAnewWithEveryMeshAndBoundsAttempts) {
  synth::Budget budget({}, {}, Effort::normal);
  const int64_t patience = synth::patience(Effort::normal);
  EXPECT_TRUE(budget.patient());
  budget.stop().spend(6 * patience);
  EXPECT_FALSE(budget.patient());
  const synth::StopToken third = budget.stop_of_attempt();
  third.spend(2 * patience - 1);
  EXPECT_FALSE(third.stopped());
  third.spend(1);
  EXPECT_TRUE(third.stopped());
  EXPECT_FALSE(budget.stop().stopped()) << "only the attempt has ended";
  budget.begin_mesh();
  EXPECT_TRUE(budget.patient());
  EXPECT_FALSE(synth::Budget({}, {}, Effort::quick).patient());
}

TEST(Synthesize, OneDeviceConvertsNothing) {
  Program program = mlp(16, {20, 30, 10});
  Plan plan = synthesize(program, cluster_of_speeds({1e9}));
  for (const Instruction& instruction : plan.program.instructions) EXPECT_EQ(instruction.opcode, Opcode::compute);
  EXPECT_TRUE(plan.program.tables.empty());
}

TEST(Synthesize, DropsDevicesThatDoNotPay) {
  Program program = mlp(64, {32, 64, 32});
  Cluster cluster = cluster_of_speeds({1e9, 1e9, 1e6}, 1e12, 1e-9);
  SynthesisOptions options;
  options.drop_devices = true;
  Plan plan = synthesize(program, cluster, options);
  ASSERT_EQ(plan.devices.size(), 2u);
  EXPECT_EQ(plan.devices[0].name, "device0");
  EXPECT_EQ(plan.devices[1].name, "device1");
  EXPECT_EQ(plan.program.mesh.device_count(), 2);
  EXPECT_LT(plan.prediction.objective_seconds, synthesize(program, cluster).prediction.objective_seconds);
  EXPECT_EQ(compare_with_reference(program, plan.program, 8), "");
  EXPECT_NO_THROW(check_plan_cluster(plan, cluster));
}

TEST(Synthesize, ASlowLinkLeavesTheFastestDeviceAlone) {
  Program program = mlp(64, {32, 64, 32});
  Cluster cluster = cluster_of_speeds({1e9, 2e9, 1e9}, 1e3, 1);
  SynthesisOptions options;
  options.drop_devices = true;
  Plan plan = synthesize(program, cluster, options);
  ASSERT_EQ(plan.devices.size(), 1u);
  EXPECT_EQ(plan.devices[0].name, "device1");
  EXPECT_EQ(plan.prediction.baselines.size(), 3u);
}

SynthesisOptions two_axes() {
  SynthesisOptions options;
  options.most_axes = 2;
  return options;
}

TEST(Synthesize, TwoAxesWinBetweenHosts) {
  // Each tensor is cut inside a host by one dimension and between hosts by another, so that less crosses the slow link.
  Program program = mlp(64, {64, 64, 64});
  Cluster cluster = cluster_of_speeds({1e9, 1e9, 1e9, 1e9}, 1e10, 1e-8);
  cluster.between = {1e8, 1e-7};
  cluster.hosts.resize(2, cluster.hosts[0]);
  cluster.devices[2].host = cluster.devices[3].host = 1;
  Plan one = synthesize(program, cluster), two = synthesize(program, cluster, two_axes());
  EXPECT_EQ(two.program.mesh.axes.size(), 2u);
  // Also where collectives on one axis go within hosts first.
  EXPECT_LT(two.prediction.objective_seconds, 0.95 * one.prediction.objective_seconds);
  EXPECT_TRUE(two.prediction.optimal);
  EXPECT_EQ(compare_with_reference(program, two.program, 5), "");
}

TEST(Synthesize, SaysWhatBecameOfEveryMeshInTheOrderOfTheirBounds) {
  Program program = mlp(64, {64, 64, 64});
  Cluster cluster = cluster_of_speeds(std::vector<double>(8, 1e9), 1e10, 1e-8);
  cluster.between = {1e8, 1e-7};
  cluster.hosts.resize(2, cluster.hosts[0]);
  for (size_t d = 4; d < 8; ++d) cluster.devices[d].host = 1;
  const Plan plan = synthesize(program, cluster, two_axes());
  const std::vector<Trial>& considered = plan.prediction.considered;
  ASSERT_EQ(considered.size(), 3u);
  // The one with the least bound is planned first, and wins here.
  EXPECT_THAT(considered[0].mesh, testing::ElementsAre(2, 4));
  EXPECT_EQ(considered[0].outcome, "taken");
  for (const Trial& other : considered) EXPECT_LE(considered[0].bound_seconds, other.bound_seconds);
  std::vector<int> sizes;
  for (const Mesh::Axis& axis : plan.program.mesh.axes) sizes.push_back(axis.size);
  int taken = 0;
  for (const Trial& trial : considered) {
    EXPECT_FALSE(trial.outcome.empty());
    EXPECT_EQ(trial.device_count, 8);
    if (trial.step_seconds > 0) {
      EXPECT_LE(trial.bound_seconds, trial.added_seconds());
      EXPECT_LT(trial.latency_seconds, trial.communication_seconds);
      EXPECT_LE(trial.step_seconds, trial.added_seconds() * (1 + 1e-9));
    }
    if (trial.outcome == "given up: its bound shows that it cannot win") {
      EXPECT_GE(trial.bound_seconds, 0.999 * plan.prediction.objective_seconds);
    }
    if (trial.outcome == "taken") {
      ++taken;
      EXPECT_EQ(trial.mesh, sizes);
      EXPECT_EQ(trial.step_seconds, plan.prediction.step_seconds);
      EXPECT_NEAR(trial.added_seconds(), plan.prediction.objective_seconds, 1e-9 * trial.added_seconds());
    }
  }
  EXPECT_EQ(taken, 1);
}

/// Whichever plan of a mesh unfolds fastest: what is proven of the mesh is told of it.
RC_GTEST_PROP(Synthesize, EveryPlanThatIsTakenHasBounds, ()) {
  const Program program = random_program(5);
  const Cluster cluster = random_cluster();
  SynthesisOptions options;
  options.drop_devices = *rc::gen::arbitrary<bool>();
  options.runners_up = 3;
  const Prediction p = synthesize(program, cluster, options).prediction;
  RC_ASSERT(p.lower_bound_seconds > 0 || p.objective_seconds < 2e-12);
  RC_ASSERT(p.lower_bound_seconds <= p.objective_seconds);
  RC_ASSERT(p.shares_bound_seconds <= p.lower_bound_seconds * (1 + 1e-12) + 1e-12);
  // Each instruction of the sum is rounded to a picosecond.
  RC_ASSERT(p.step_seconds <= p.objective_seconds * (1 + 1e-9) + 1e-11 || p.hidden_weight < 1);
}

RC_GTEST_PROP(Synthesize, TwoAxesAreNeverSlowerThanOneAndComputeTheReference, ()) {
  Program program = random_program(5);
  auto [cluster, mesh] = random_mesh();
  Plan one = synthesize(program, cluster), two = synthesize(program, cluster, two_axes());
  RC_LOG() << text(two.program, program);
  RC_CLASSIFY(two.program.mesh.axes.size() == 2, "two axes");
  // Of what was found on one axis and on two that is taken which unfolds fastest.
  double least = HUGE_VAL;
  for (const Trial& trial : two.prediction.considered) {
    if (trial.step_seconds <= 0) continue;
    least = std::min(least, trial.added_seconds());
    RC_ASSERT(two.prediction.step_seconds <= trial.step_seconds);
  }
  RC_ASSERT(least <= one.prediction.objective_seconds + 1e-12 * double(two.program.instructions.size()));
  RC_ASSERT(two.prediction.optimal);
  RC_ASSERT(compare_with_reference(program, two.program, 11) == "");
  RC_ASSERT(plan_from_json(plan_to_json(two, program), "plan.json", program).program == canonical(two.program));
}

TEST(Synthesize, TheTimeLimitIsKeptAndLeavesACorrectPlan) {
  Program program = mlp(8, std::vector<int64_t>(40, 24));
  Cluster cluster = cluster_of_speeds({1e9, 2e9, 3e9}, 1e9, 1e-8);
  for (double limit : {0.0, 0.001, 0.01, 0.1}) {
    SynthesisOptions options = two_axes();
    options.drop_devices = true;
    options.time_limit_seconds = limit;
    Plan plan = synthesize(program, cluster, options);
    EXPECT_LE(plan.prediction.lower_bound_seconds, plan.prediction.objective_seconds);
    EXPECT_TRUE(plan.prediction.cut_short || limit > 0);
    EXPECT_EQ(plan_from_json(plan_to_json(plan, program), "plan.json", program).prediction.cut_short,
              plan.prediction.cut_short);
    EXPECT_EQ(compare_with_reference(program, plan.program, 3), "") << limit;
  }
}

TEST(Synthesize, WhereTimeEndsBeforeAPlanFitsMoreOfItIsTheMend) {
  Program program = mlp(8, std::vector<int64_t>(9, 256));
  Cluster cluster = cluster_of_speeds({1e9, 2e9, 3e9}, 1e9, 1e-8);
  for (Device& device : cluster.devices) device.memory_bytes = 4 << 20;  // of parameters and states alone
  SynthesisOptions options;
  options.time_limit_seconds = 0;
  try {
    synthesize(program, cluster, options);
    ADD_FAILURE() << "a plan without a search";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the best plan found in the time given does not fit"));
    EXPECT_THAT(error.what(), HasSubstr("let planning go on, what fits may still be found; or use a smaller batch"));
  }
  EXPECT_LE(synthesize(program, cluster).prediction.devices[0].fullness(), 1);
}

TEST(Synthesize, AListenerCanStopIt) {
  Program program = mlp(8, std::vector<int64_t>(20, 24));
  Cluster cluster = cluster_of_speeds({1e9, 2e9, 3e9}, 1e9, 1e-8);
  SynthesisOptions options;
  int calls = 0;
  options.progress = [&](const SynthesisProgress& progress) {
    ++calls;
    if (progress.best_seconds) {
      EXPECT_GE(progress.searches, 1);
      EXPECT_GE(progress.expansions, 1);
      EXPECT_LE(progress.bound_seconds, *progress.best_seconds);
    }
    return !progress.best_seconds.has_value();  // the first plan will do
  };
  Plan plan = synthesize(program, cluster, options);
  EXPECT_GE(calls, 1);
  EXPECT_EQ(compare_with_reference(program, plan.program, 3), "");
}

/// Four hosts behind fast links, of which one has a slow one: the others go on without it. Where a file could tell one
/// rate alone, that of the slowest, all would have gone on alone.
TEST(Synthesize, AHostWithASlowLinkIsLeftOut) {
  const Program program = mlp(512, {256, 256, 256});
  Cluster cluster = cluster_of_speeds({1e10, 1e10, 1e10, 1e10});
  cluster.hosts.resize(4, cluster.hosts[0]);
  for (int d = 0; d < 4; ++d) cluster.devices[size_t(d)].host = d;
  cluster.between = {1e9, 1e-5};
  SynthesisOptions options;
  options.drop_devices = true;
  EXPECT_EQ(synthesize(program, cluster, options).program.mesh.device_count(), 4);
  for (const bool receives : {false, true}) {
    Cluster far = cluster;
    (receives ? far.hosts[1].outside.receiving_bytes_per_second : far.hosts[1].outside.sending_bytes_per_second) = 1e6;
    const Plan plan = synthesize(program, far, options);
    EXPECT_EQ(plan.program.mesh.device_count(), 3);
    for (const auto& device : plan.devices) EXPECT_NE(device.name, far.devices[1].name);
  }
  Cluster slow = cluster;
  slow.between = {1e4, 1e-2};
  EXPECT_EQ(synthesize(program, slow, options).program.mesh.device_count(), 1);
}

}  // namespace
}  // namespace hetsynth
