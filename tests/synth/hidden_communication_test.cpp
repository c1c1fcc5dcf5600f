// Plans whose communication hides beside computing: what counts less is searched as exactly, and what it leads to is
// taken where the step as it unfolds is shorter. And the times that no step is below.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>

#include "brute_force.h"
#include "dsl/spmd/buckets.h"
#include "programs.h"
#include "random_programs.h"
#include "synth/alternation/alternation.h"
#include "synth/baselines/baseline_plans.h"
#include "synth/baselines/baselines.h"
#include "synth/network/search.h"
#include "synth/planner/synthesize.h"
#include "synth/schedule/plan_buckets.h"
#include "synth/schedule/price.h"
#include "synth/schedule/schedule.h"
#include "synth/shares/start_shares.h"

namespace hetsynth::synth {
namespace {

using namespace testing_support;

RC_GTEST_PROP(HiddenCommunication, CountedInPartIsSearchedToItsOptimum, ()) {
  const Program program = random_program(3);
  Problem problem(program, random_cluster());
  problem.cost.weigh_hidden(problem.analysis->may_hide, *rc::gen::element(0.0, 0.3, 0.5, 1.0));
  const Shares shares = common_shares(problem.classes, fractions_of(problem, RatioRule::proportional));
  const Conversions conversions(*problem.analysis, problem.cost, shares);
  const Solution found = search(problem, conversions, shares, {}, {});
  RC_LOG() << text(program);
  RC_ASSERT(found.search.optimal());
  RC_ASSERT(found.cost == brute_force_cost(problem, shares));
}

/// The objective of a plan is what the search gave it, up to a picosecond for every instruction.
RC_GTEST_PROP(HiddenCommunication, ObjectivesOfPlansAreThoseOfTheSearch, ()) {
  const Program program = random_program(4);
  Problem problem(program, random_cluster());
  problem.cost.weigh_hidden(problem.analysis->may_hide, 0.5);
  Budget budget;
  const std::vector<Plan> plans = best_plans(problem, budget);
  RC_ASSERT(!plans.empty());
  const Prediction& told = plans[0].prediction;
  RC_ASSERT(told.hidden_weight == 0.5);
  const std::vector<InstructionPrice> prices = price_instructions(problem, plans[0].program);
  double least = 0, whole = 0;
  for (const InstructionPrice& price : prices) {
    least += price.seconds * (price.communicates() ? 0.5 : 1);
    whole += price.seconds;
  }
  const double slack = 1e-12 * double(prices.size() + 1);
  RC_ASSERT(told.objective_seconds >= least - slack);
  RC_ASSERT(told.objective_seconds <= whole + slack);
  RC_ASSERT(told.lower_bound_seconds <= told.objective_seconds);
  RC_ASSERT(told.shares_bound_seconds <= told.objective_seconds);
}

TEST(HiddenCommunication, MayBeOfParametersStatesAndWhatOnlyTheUpdateReads) {
  ProgramBuilder b;
  const NodeId x = b.input("x", {8, 4}), w = b.parameter("w", {4, 4}), m = b.state("m", {4, 4});
  const NodeId h = b.op("h", "bk,kn->bn", {x, w});
  const NodeId loss = b.op("loss", "bn->", {h});
  b.program.loss = loss;
  b.phase(Phase::backward);
  const NodeId d_h = b.op("d_h", "bn->bn", {h});
  const NodeId d_w = b.op("d_w", "bk,bn->kn", {x, d_h});
  const NodeId d_x = b.op("d_x", "bn->b", {d_h});
  b.phase(Phase::update);
  const NodeId moved = b.op("moved", "kn,kn->kn", {m, d_w});
  b.program.updates = {{m, moved}, {w, moved}};
  const Analysis analysis(b.program, 1);
  const auto hides = [&](NodeId node) { return analysis.may_hide[size_t(node)] != 0; };
  for (const NodeId node : {w, m, d_w, moved}) EXPECT_TRUE(hides(node)) << b.program[node].name;
  for (const NodeId node : {x, h, loss, d_h, d_x}) EXPECT_FALSE(hides(node)) << b.program[node].name;
}

/// As where gradients are clipped by the norm of all: there is nothing left to compute beside it.
TEST(HiddenCommunication, MayNotBeOfAParameterThatWaitsForTheWholeBackwardPhase) {
  ProgramBuilder b;
  const NodeId x = b.input("x", {8, 4}), w = b.parameter("w", {4, 4}), v = b.parameter("v", {4, 4});
  const NodeId h = b.op("h", "bk,kn->bn", {x, w}), o = b.op("o", "bk,kn->bn", {h, v});
  b.program.loss = b.op("loss", "bn->", {o});
  b.phase(Phase::backward);
  const NodeId d_v = b.op("d_v", "bk,bn->kn", {h, o});
  const NodeId d_w = b.op("d_w", "bk,bn->kn", {x, o});
  b.phase(Phase::update);
  const NodeId squares = b.op("squares", "kn->", {d_w});
  const NodeId next_v = b.op("next_v", "kn,kn->kn", {v, d_v}), next_w = b.op("next_w", "kn,kn->kn", {w, d_w});
  const NodeId clipped_v = b.op("clipped_v", "kn,->kn", {next_v, squares});
  b.program.updates = {{v, clipped_v}, {w, next_w}};
  const Analysis analysis(b.program, 1);
  EXPECT_TRUE(analysis.may_hide[size_t(next_v)]) << "d_w is computed meanwhile";
  EXPECT_FALSE(analysis.may_hide[size_t(next_w)]);
  EXPECT_FALSE(analysis.may_hide[size_t(clipped_v)]);
}

/// Two hosts with a link between them that is slow for one gradient after the other, and fast enough for all of them
/// beside the backward phase.
Cluster two_hosts_of_gpus() {
  Cluster cluster = cluster_of_speeds({1e12, 1e12, 1e12, 1e12}, 1e11, 1e-6);
  for (Device& device : cluster.devices) device.kind = DeviceKind::cuda;
  cluster.between = {1e9, 1e-5};
  cluster.hosts.resize(2, cluster.hosts[0]);
  for (size_t d = 2; d < 4; ++d) cluster.devices[d].host = 1;
  return cluster;
}

TEST(HiddenCommunication, TakesAllDevicesWhereASumWouldNot) {
  const Program program = mlp(2432, {512, 512, 512, 512, 512});
  const Cluster cluster = two_hosts_of_gpus();
  SynthesisOptions options;
  options.drop_devices = true;
  const Plan plan = synthesize(program, cluster, options);
  const Prediction& p = plan.prediction;
  for (const Trial& trial : p.considered)
    if (trial.step_seconds > 0) {
      EXPECT_LE(p.step_seconds, trial.step_seconds) << trial.outcome;
    }
  const auto least = [](const Trial& trial) { return trial.step_seconds > 0 ? trial.added_seconds() : 1e9; };
  const Trial& by_sum = *std::ranges::min_element(p.considered, {}, least);
  EXPECT_EQ(by_sum.device_count, 2) << "the premise: added up, one host is faster than both";
  EXPECT_EQ(p.taken()->device_count, 4);
  EXPECT_LT(p.step_seconds, 0.95 * by_sum.step_seconds);
  EXPECT_LE(p.floor_seconds, p.step_seconds);
}

/// What is under way takes memory. Where that is short less is under way, before nothing is.
TEST(HiddenCommunication, IsGivenUpStepByStepWhereMemoryIsShort) {
  const Program program = mlp(8, std::vector<int64_t>(12, 64));
  Cluster cluster = cluster_of_speeds({1e10, 1e10}, 1e8, 1e-4);
  // On one host nothing is beside.
  const SpmdProgram plain = data_parallel_plan(program, cluster, RatioRule::even).program;
  cluster.hosts.resize(2, cluster.hosts[0]);
  cluster.devices[1].host = 1;
  cluster.between = {1e8, 1e-4};
  const Problem problem(program, cluster);
  const Shares shares = common_shares(problem.classes, {{1, 1}});
  const auto within = [&](int64_t bytes) {
    Cluster small = cluster;
    for (Device& device : small.devices) device.memory_bytes = bytes;
    return in_buckets_if_they_fit(Problem(program, small), shares, plain);
  };
  const auto peak = [&](const SpmdProgram& p) { return std::ranges::max(peak_memory(problem, shares, p)); };
  int64_t before = std::numeric_limits<int64_t>::max();
  for (const Beside how : {Beside::ahead, Beside::in_buckets, Beside::alone}) {
    const SpmdProgram beside = with_buckets(program, plain, how);
    const int64_t needed = peak(beside);
    EXPECT_LE(needed, before);
    if (needed == before) continue;
    EXPECT_EQ(within(needed * 32 / 31 + 1), beside) << int(how);
    before = needed;
  }
  EXPECT_LT(before, peak(with_buckets(program, plain))) << "the premise";
  EXPECT_EQ(within(peak(plain) / 2), plain);
}

/// A mesh that is pinned to all devices is searched for what hides as a free one is.
TEST(HiddenCommunication, APinnedMeshIsNoSlowerThanItsBaselines) {
  const Program program = mlp(2432, {512, 512, 512, 512, 512});
  const Cluster cluster = two_hosts_of_gpus();
  SynthesisOptions free, pinned;
  free.drop_devices = pinned.drop_devices = true;
  pinned.pins.mesh = {4};
  const Plan plan = synthesize(program, cluster, pinned), best = synthesize(program, cluster, free);
  ASSERT_EQ(best.prediction.taken()->device_count, 4) << "the premise";
  EXPECT_EQ(plan.program.mesh.device_count(), 4);
  EXPECT_LE(plan.prediction.step_seconds, 1.001 * best.prediction.step_seconds);
  for (const BaselinePrediction& baseline : plan.prediction.baselines)
    if (baseline.feasible && baseline.name.find("data parallel") != std::string::npos) {
      EXPECT_LE(plan.prediction.step_seconds, baseline.step_seconds * (1 + 1e-9)) << baseline.name;
    }
}

/// One device multiplies fast, the other moves memory fast: together they are faster than two of their common speed.
TEST(Floor, DevicesThatSuitDifferentOperatorsNeedLessThanTheirSpeedsForAll) {
  const Program program = mlp(512, {256, 256, 256});
  Cluster cluster = cluster_of_speeds({1e13, 1e10});
  cluster.devices[0].declared = {1e13, 1e8};
  cluster.devices[1].declared = {1e10, 1e13};
  const Problem problem(program, cluster);
  double rate = 0;
  for (const double speed : device_speeds(problem)) rate += speed;
  EXPECT_LT(ideal_seconds(problem), 0.9 / rate) << "no bound for sums: each operator goes where it is fast";
  EXPECT_LT(least_busy_seconds(problem), ideal_seconds(problem));
  EXPECT_GT(least_busy_seconds(problem), 0);
  const Cluster alike = cluster_of_speeds({1e10, 1e10, 1e10});
  const Problem same(program, alike);
  EXPECT_NEAR(least_busy_seconds(same), ideal_seconds(same), 1e-5 * ideal_seconds(same));
}

RC_GTEST_PROP(Floor, NoPlanIsBelow, ()) {
  const Program program = random_program(4);
  const Cluster cluster = random_cluster();
  const Problem problem(program, cluster);
  const double floor = least_busy_seconds(problem), ideal = ideal_seconds(problem);
  RC_ASSERT(floor <= ideal * (1 + 1e-9));
  for (const RatioRule rule : {RatioRule::even, RatioRule::proportional}) {
    const Plan plan = data_parallel_plan(program, cluster, rule);
    RC_ASSERT(floor <= plan.prediction.step_seconds);
    RC_ASSERT(ideal <= plan.prediction.objective_seconds * (1 + 1e-9));
  }
  SynthesisOptions options;
  options.drop_devices = true;
  const Plan plan = synthesize(program, cluster, options);
  RC_ASSERT(floor <= plan.prediction.step_seconds);
  RC_ASSERT(plan.prediction.floor_seconds == floor);
  for (const BaselinePrediction& baseline : plan.prediction.baselines)
    RC_ASSERT(!baseline.feasible || plan.prediction.step_seconds <= baseline.step_seconds * (1 + 1e-9) + 1e-12);
}

}  // namespace
}  // namespace hetsynth::synth
