// Bounds over all shares: no plan is below them at any shares, and on equal devices some plan reaches them.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "programs.h"
#include "random_programs.h"
#include "searched.h"
#include "synth/bounds/mesh_bound.h"
#include "synth/bounds/share_bound.h"
#include "synth/network/search.h"
#include "synth/planner/synthesize.h"

namespace hetsynth {
namespace {

using namespace synth;
using namespace testing_support;

/// Random granules, on every axis adding up.
Shares random_shares(const Problem& problem) {
  std::vector<std::vector<double>> fractions;
  for (const Mesh::Axis& axis : problem.mesh.axes) {
    fractions.emplace_back();
    for (int i = 0; i < axis.size; ++i) fractions.back().push_back(*rc::gen::inRange(i == 0 ? 1 : 0, 5));
  }
  return common_shares(problem.classes, fractions);
}

/// Holds the bound against the cheapest plans at some shares; the least of their costs.
Picoseconds check_bound_over_shares(const Problem& problem, Picoseconds bound) {
  RC_ASSERT(bound > 0);
  Picoseconds best = forbidden;
  for (int i = 0; i < 5; ++i) {
    Shares shares = random_shares(problem);
    Conversions conversions(*problem.analysis, problem.cost, shares);
    best = std::min(best, search(problem, conversions, shares, {}, {}).cost);
    RC_ASSERT(bound <= best);
  }
  return best;
}

/// Around the relaxation there are programs, none of them cheaper than the cheapest of all.
void check_what_is_around(const Problem& problem, const Relaxation& relaxation) {
  const Shares shares = random_shares(problem);
  const Conversions conversions(*problem.analysis, problem.cost, shares);
  const Picoseconds best = search(problem, conversions, shares, {}, {}).cost;
  RC_ASSERT(best <= total_cost(problem, conversions, shares, relaxation.choices));
  const Solution around = search_among(problem, conversions, shares, relaxation.around, {});
  if (around.choices.empty()) return;
  RC_ASSERT(best <= around.cost);
  RC_ASSERT(around.cost == total_cost(problem, conversions, shares, around.choices));
}

RC_GTEST_PROP(Search, NothingIsBelowTheBoundOverShares, ()) {
  Program program = random_program(4);
  Problem problem(program, random_cluster());
  const Relaxation relaxation = MeshBound(problem, {}).relaxation();
  const Picoseconds bound = relaxation.bound;
  check_what_is_around(problem, relaxation);
  const Picoseconds best = check_bound_over_shares(problem, bound);
  for (size_t c = 0; c < problem.classes.classes.size(); ++c) {
    const Picoseconds tighter = tighter_bound_over_shares(problem, int(c), bound, best, 0, 12, {});
    RC_ASSERT(tighter >= bound);
    RC_ASSERT(tighter <= best);
  }
}

/// Tensors that devices exchange, whose hosts have unequal links: the slower a host's link, the less it holds at best,
/// also where devices are equally fast. Without gathers nothing but an all-to-all goes from columns to rows.
RC_GTEST_PROP(Search, NothingIsBelowTheBoundOverSharesOfUnequalLinks, ()) {
  const Program program = *rc::gen::arbitrary<bool>() ? random_program(5) : mlp(48, {96, 96});
  const double speed = *rc::gen::element(1e9, 1e11, 1e13);
  Cluster cluster = cluster_of_speeds({speed, speed, speed * *rc::gen::element(1, 2), speed}, 1e9, 1e-9);
  const bool pairs = *rc::gen::arbitrary<bool>();  // two hosts of two devices
  cluster.hosts.resize(pairs ? 2 : 4, cluster.hosts[0]);
  cluster.between = {1e8, 1e-8};
  for (int d = 0; d < 4; ++d) cluster.devices[size_t(d)].host = pairs ? d / 2 : d;
  for (Host& host : cluster.hosts) {
    host.outside.sending_bytes_per_second = 1e8 * *rc::gen::element(0.02, 0.5, 1.0);
    host.inside.bandwidth_bytes_per_second *= *rc::gen::element(0.1, 1.0);
  }
  if (*rc::gen::arbitrary<bool>()) {  // the hosts in two racks, side by side or not
    const double uplink = 1e8 * *rc::gen::element(0.05, 0.5, 4.0);
    cluster.racks = {{"left", {uplink, uplink, 1e-8}}, {"right", {1e8, 1e8, 0}}};
    for (Host& host : cluster.hosts) host.rack = *rc::gen::element(0, 1);
  }
  Problem problem(program, cluster);
  problem.cost.forbid({Opcode::all_gather});
  const Picoseconds bound = MeshBound(problem, {}).relaxation().bound;
  for (int tries = 0; tries < 6; ++tries) {
    std::vector<double> parts;
    for (int d = 0; d < 4; ++d) parts.push_back(*rc::gen::element(0.01, 1.0, 8.0));
    const Shares shares = common_shares(problem.classes, {parts});
    RC_LOG() << fmt::format("parts {}", fmt::join(parts, " "));
    RC_ASSERT(bound <= search(problem, Conversions(*problem.analysis, problem.cost, shares), shares, {}, {}).cost);
  }
}

TEST(Search, TheBoundOverSharesLetsAHostWithASlowLinkHoldLittle) {
  ProgramBuilder b;
  const NodeId x = b.input("x", {512, 256}), w = b.parameter("w", {256, 1024});
  const NodeId h = b.op("h", "ak,kb->ab", {x, w}), g = b.op("g", "ab->ab", {h}), o = b.op("o", "ab->ab", {g});
  b.program.loss = b.op("loss", "ab->", {o});
  Cluster cluster = cluster_of_speeds({6e10, 6e10, 6e10});
  cluster.hosts.resize(3, cluster.hosts[0]);
  for (int d = 0; d < 3; ++d) cluster.devices[size_t(d)].host = d;
  cluster.between = {5e9, 1e-6};
  cluster.hosts[0].outside = {2.5e6, 2.5e6, {}};
  SynthesisOptions options;
  options.pins.mesh = {3};
  options.pins.placements = {{"h", "sharded(1)"}, {"g", "sharded(0)"}};
  options.pins.forbidden = {Opcode::all_gather};
  const Plan free = synthesize(b.program, cluster, options);
  options.pins.ratio = {1, 1, 1};
  const Plan even = synthesize(b.program, cluster, options);
  EXPECT_LT(free.prediction.objective_seconds, 0.5 * even.prediction.objective_seconds) << "the premise";
  EXPECT_LE(even.prediction.shares_bound_seconds, free.prediction.objective_seconds);
}

/// The cheapest plan at shares by speed, and the bound over all shares.
struct PlanBySpeed {
  explicit PlanBySpeed(const Problem& problem)
      : shares(common_shares(problem.classes, fractions_of(problem, RatioRule::proportional))),
        cost(search(problem, Conversions(*problem.analysis, problem.cost, shares), shares, {}, {}).cost),
        bound(MeshBound(problem, {}).relaxation().bound) {}
  Shares shares;
  Picoseconds cost, bound;
};

/// Dimensions that branches around a plan's shares divide in three.
RC_GTEST_PROP(Search, NothingIsBelowTheBoundAroundAPlan, ()) {
  const auto extent = [] { return int64_t(*rc::gen::inRange(32, 200)); };
  const auto speed = [] { return *rc::gen::inRange(1, 9) * 1e9; };
  const Program program = mlp(extent(), {extent(), extent()});
  const Problem problem(program, cluster_of_speeds({speed(), speed(), speed()}, *rc::gen::inRange(1, 100) * 1e8));
  const PlanBySpeed plan(problem);
  for (size_t c = 0; c < problem.classes.classes.size(); ++c) {
    const int most = *rc::gen::inRange(3, 13);
    const Picoseconds tighter =
        tighter_bound_over_shares(problem, int(c), plan.bound, plan.cost, 0, most, {}, {}, nullptr, plan.shares);
    RC_ASSERT(tighter >= plan.bound);
    RC_ASSERT(tighter <= plan.cost);
    check_bound_over_shares(problem, tighter);
    std::vector<double> close;
    const auto by_speed = fractions_of(problem, RatioRule::proportional);
    for (double part : by_speed[0]) close.push_back(part * *rc::gen::inRange(80, 120));
    const Shares shares = common_shares(problem.classes, {close});
    RC_ASSERT(tighter <= search(problem, Conversions(*problem.analysis, problem.cost, shares), shares, {}, {}).cost);
  }
}

RC_GTEST_PROP(TwoAxes, NothingIsBelowTheBoundOverShares, ()) {
  Program program = random_program(4);
  auto [cluster, mesh] = random_mesh();
  if (*rc::gen::arbitrary<bool>()) cluster.hosts[0].inside.bandwidth_bytes_per_second /= 7;
  Problem problem(std::make_shared<const Analysis>(program, 2), cluster, mesh);
  check_bound_over_shares(problem, MeshBound(problem, {}).relaxation().bound);
}

TEST(TwoAxes, OnEqualDevicesTheBoundOverSharesIsReached) {
  const Program program = mlp(96, {48, 96, 48});
  Cluster cluster = cluster_of_speeds({1e9, 1e9, 1e9, 1e9});
  cluster.between = {1e8, 1e-6};
  cluster.hosts.resize(2, cluster.hosts[0]);
  cluster.devices[2].host = cluster.devices[3].host = 1;
  Searched s(program, cluster, Mesh{{{"outer", 2}, {"inner", 2}}});
  EXPECT_NEAR(double(MeshBound(s.problem, {}).relaxation().bound), double(s.solution.cost),
              1e-3 * double(s.solution.cost));
}

TEST(Search, OnEqualDevicesTheBoundOverSharesIsReached) {
  const Program program = mlp(64, {32, 64, 32});
  Searched s(program, cluster_of_speeds({1e10, 1e10, 1e10, 1e10}), RatioRule::even);
  EXPECT_EQ(MeshBound(s.problem, {}).relaxation().bound, s.solution.cost);
}

/// Some classes cannot be cut evenly; collectives may be hierarchical.
RC_GTEST_PROP(Search, NothingIsBelowTheBoundOverSharesOfEqualDevices, ()) {
  const Program program = random_program(4);
  Cluster cluster = cluster_of_speeds({1e9, 1e9, 1e9, 1e9});
  cluster.between = {1e8, *rc::gen::element(1e-6, 1e-3)};
  cluster.hosts.resize(2, cluster.hosts[0]);
  cluster.devices[2].host = cluster.devices[3].host = 1;
  if (*rc::gen::arbitrary<bool>()) cluster.hosts[1].inside.bandwidth_bytes_per_second /= 7;
  if (*rc::gen::arbitrary<bool>()) cluster.devices[1].host = 1;
  const Problem problem(program, cluster);
  const Relaxation relaxation = MeshBound(problem, {}).relaxation();
  check_bound_over_shares(problem, relaxation.bound);
}

}  // namespace
}  // namespace hetsynth
