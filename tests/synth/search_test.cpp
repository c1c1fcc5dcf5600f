// The search finds the cheapest plan: against brute force on random programs, and in value against the reference.
#include "synth/network/search.h"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <array>

#include "brute_force.h"
#include "programs.h"
#include "random_programs.h"
#include "searched.h"
#include "synth/bounds/mesh_bound.h"

namespace hetsynth {
namespace {

using namespace synth;
using namespace testing_support;

bool splits_work(const Searched& s) {
  for (const Node& node : s.problem.program.nodes)
    if (!node.leaf() && s.problem.rules.options[node.id][s.solution.choices[node.id]].splits()) return true;
  return false;
}

bool communicates(const Searched& s) {
  for (const Node& node : s.problem.program.nodes)
    if (materialise(s.problem, s.conversions, s.solution.choices, node.id).cost > 0) return true;
  return false;
}

TEST(Search, TheLongerAProgramTheFewerSweepsItIsSearchedFor) {
  const Program shallow_program = mlp(64, {32, 64, 32}), deep_program = mlp(64, std::vector<int64_t>(1000, 32));
  const Searched small(shallow_program, cluster_of_speeds({1e10, 1e10}), RatioRule::even);
  EXPECT_EQ(limits_of(small.problem, {}).most_sweeps, SearchLimits().most_sweeps);
  const Program& deep = deep_program;
  ASSERT_GT(deep.nodes.size(), 4000u);
  EXPECT_LT(limits_of(Problem(deep, cluster_of_speeds({1e10, 1e10})), {}).most_sweeps, SearchLimits().most_sweeps);
}

// Each case draws three programs: 300 in all.
RC_GTEST_PROP(Search, EqualsBruteForce, ()) {
  for (int i = 0; i < 3; ++i) {
    Program program = random_program(3);
    Cluster cluster = random_cluster();
    Searched s(program, cluster, *rc::gen::element(RatioRule::even, RatioRule::proportional));
    RC_LOG() << text(program);
    RC_CLASSIFY(splits_work(s), "some operator is split");
    RC_CLASSIFY(communicates(s), "some tensor is converted");
    RC_ASSERT(s.solution.search.optimal());
    RC_ASSERT(s.solution.cost == brute_force_cost(s.problem, s.shares));
  }
}

/// Whether the plan reads some tensor with a halo.
bool exchanges_halos(const Searched& s) {
  for (const Node& node : s.problem.program.nodes)
    for (const auto& [from, to] : materialise(s.problem, s.conversions, s.solution.choices, node.id).steps)
      if (s.problem.rules.forms[node.id][size_t(to)].overlaps()) return true;
  return false;
}

RC_GTEST_PROP(Halos, EqualBruteForce, ()) {
  const Program program = random_windows(3);
  const Searched s(program, random_cluster(), *rc::gen::element(RatioRule::even, RatioRule::proportional));
  RC_LOG() << text(program);
  RC_CLASSIFY(exchanges_halos(s), "a halo is exchanged");
  RC_ASSERT(s.solution.search.optimal());
  RC_ASSERT(s.solution.cost == brute_force_cost(s.problem, s.shares));
}

RC_GTEST_PROP(Halos, PlansComputeTheReference, ()) {
  const Program program = random_windows(5);
  const Searched s(program, random_cluster(), RatioRule::proportional);
  RC_CLASSIFY(exchanges_halos(s), "a halo is exchanged");
  const SpmdProgram spmd = lower(s.problem, s.conversions, s.shares, s.solution.choices);
  RC_LOG() << text(spmd, program);
  RC_ASSERT(compare_with_reference(program, spmd, 7) == "");
}

/// Whatever the shares: a halo costs the same at all of them.
RC_GTEST_PROP(Halos, NothingIsBelowTheBoundOverShares, ()) {
  const Program program = random_windows(3);
  const Searched s(program, random_cluster(), *rc::gen::element(RatioRule::even, RatioRule::proportional));
  RC_CLASSIFY(exchanges_halos(s), "a halo is exchanged");
  RC_ASSERT(MeshBound(s.problem, {}).relaxation().bound <= s.solution.cost);
}

RC_GTEST_PROP(Search, PlansComputeTheReference, ()) {
  Program program = random_program(6);
  Cluster cluster = random_cluster();
  Searched s(program, cluster, RatioRule::proportional);
  SpmdProgram spmd = lower(s.problem, s.conversions, s.shares, s.solution.choices);
  RC_LOG() << text(spmd, program);
  RC_ASSERT(compare_with_reference(program, spmd, 7) == "");
}

bool uses_both_axes(const Searched& s) {
  std::array<bool, max_axes> used{};
  for (const Node& node : s.problem.program.nodes)
    if (!node.leaf())
      for (int a = 0; a < max_axes; ++a)
        used[a] = used[a] || s.problem.rules.options[node.id][s.solution.choices[node.id]].factor[a] >= 0;
  return used[0] && used[1];
}

RC_GTEST_PROP(TwoAxes, EqualEnumeration, ()) {
  Program program = random_program(2, false);
  for (const Node& node : program.nodes)  // no maxima, whose tensors have more forms
    RC_PRE(node.space.reduction() != FactorKind::max);
  auto [cluster, mesh] = random_mesh();
  Searched s(program, cluster, mesh);
  RC_LOG() << text(program);
  RC_CLASSIFY(uses_both_axes(s), "both axes divide work");
  RC_CLASSIFY(communicates(s), "some tensor is converted");
  RC_ASSERT(s.solution.search.optimal());
  RC_ASSERT(s.solution.cost == enumerated_cost(s.problem, s.shares, s.solution.cost));
}

/// Every operation held to one option and every leaf to one form.
Pins random_values(const Problem& problem) {
  Pins pins;
  for (const Node& node : problem.program.nodes) {
    const auto& forms = problem.rules.forms[node.id];
    auto partial = [](const Form& form) { return form.partial(); };
    int count = node.kind == NodeKind::input ? 1
                : node.leaf()                ? int(std::find_if(forms.begin(), forms.end(), partial) - forms.begin())
                                             : int(problem.rules.options[node.id].size());
    pins[node.id] = {*rc::gen::inRange(0, count)};
  }
  return pins;
}

/// A tensor that five operations read, each in its own way.
Program read_by_many() {
  ProgramBuilder b;
  const Expr in0 = Expr::input(0), in1 = Expr::input(1);
  NodeId x = b.input("x", {12, 12}), w = b.parameter("w", {12, 12});
  NodeId h = b.op("h", "ak,kb->ab", {x, w});
  NodeId sum = b.op("below", "ak,kb->ab", {h, w});
  for (NodeId part : {b.op("above", "ak,kb->ab", {w, h}), b.op("square", "ak,bk->ab", {h, h}),
                      b.op("positive", "ab->ab", {h}, maximum(in0, 0.0)), b.op("turned", "ab->ba", {h}, in0)})
    sum = b.op("sum" + std::to_string(part), "ab,ab->ab", {sum, part}, in0 + in1);
  b.program.loss = b.op("loss", "ab->", {sum}, in0 * in0);
  b.phase(Phase::update);
  b.program.updates.push_back({w, b.op("w_new", "ab,ab->ab", {w, sum}, in0 - in1)});
  return b.program;
}

// Where a tensor has more forms than can all be tried at once, both must mean the same by its cheapest set of forms:
// the search gives up with an internal fault if they do not.
RC_GTEST_PROP(TwoAxes, TheNetworkPricesAnyChoicesAsTheCostModelDoes, ()) {
  const Program program = read_by_many();
  auto [cluster, mesh] = random_mesh();
  Problem problem(std::make_shared<const Analysis>(program, 2), cluster, mesh);
  Shares shares = common_shares(problem.classes, fractions_of(problem, RatioRule::proportional));
  Conversions conversions(*problem.analysis, problem.cost, shares);
  for (int i = 0; i < 4; ++i) {
    const Pins pins = random_values(problem);
    Choices choices;
    for (const auto& [node, values] : pins) choices.of.push_back(values[0]);
    SearchInput input;
    input.pins = &pins;
    const Picoseconds expected = total_cost(problem, conversions, shares, choices);
    RC_CLASSIFY(expected < forbidden, "possible");
    RC_ASSERT(search(problem, conversions, shares, input, {}).cost == expected);
  }
}

RC_GTEST_PROP(TwoAxes, HowAllTensorsAreMadeIsHowEachIs, ()) {
  const Program program = *rc::gen::arbitrary<bool>() ? mlp(8, {4, 4, 4, 4, 4}) : random_program(6);
  const auto [cluster, mesh] = random_mesh();
  const Problem problem(std::make_shared<const Analysis>(program, 2), cluster, mesh);
  const Shares shares = common_shares(problem.classes, fractions_of(problem, RatioRule::even));
  const Conversions conversions(*problem.analysis, problem.cost, shares);
  Materialiser materialiser(problem, conversions);
  for (int i = 0; i < 3; ++i) {
    Choices choices;
    for (const auto& [node, values] : random_values(problem)) choices.of.push_back(values[0]);
    const std::vector<const Materialisation*> all = materialiser.all(choices);
    for (const Node& node : program.nodes) {
      const Materialisation one = materialise(problem, conversions, choices, node.id), &made = *all[size_t(node.id)];
      RC_ASSERT(made.cost == one.cost);
      RC_ASSERT(made.source == one.source);
      RC_ASSERT(made.sets == one.sets);
      RC_ASSERT(made.steps == one.steps);
      RC_ASSERT(made.late_steps == one.late_steps);
    }
  }
}

// Tens of thousands of values: message passing over cells, guesses, narrowing, against one plain elimination.
TEST(TwoAxes, PruningEqualsElimination) {
  const Program program = mlp(96, {48, 96, 64, 48, 96, 48});
  for (double between : {1e8, 3e9}) {
    Cluster cluster = cluster_of_speeds({1e12, 1e12, 3e12, 3e12}, 1e10, 1e-7);
    cluster.between = {between, 1e-6};
    cluster.hosts.resize(2, cluster.hosts[0]);
    cluster.devices[2].host = cluster.devices[3].host = 1;
    SearchLimits plain, pruned;
    plain.direct_limit = plain.table_limit = 1e9;
    pruned.direct_limit = 100;
    Searched one(program, cluster, Mesh{{{"outer", 2}, {"inner", 2}}}, plain);
    Searched other(program, cluster, Mesh{{{"outer", 2}, {"inner", 2}}}, pruned);
    EXPECT_EQ(one.solution.search.relaxation, 0);
    EXPECT_GT(other.solution.search.relaxation, 0);
    EXPECT_TRUE(other.solution.search.optimal());
    EXPECT_EQ(one.solution.cost, other.solution.cost);
  }
}

TEST(TwoAxes, EnumerationEqualsTheLiveSetSearchOnOneAxis) {
  Program program = mlp(4, {4, 6});
  Cluster cluster = cluster_of_speeds({1e9, 3e9}, 1e9, 1e-8);
  Searched s(program, cluster, RatioRule::even);
  EXPECT_EQ(enumerated_cost(s.problem, s.shares), s.solution.cost);
}

RC_GTEST_PROP(TwoAxes, HalosEqualEnumeration, ()) {
  const Program program = random_windows(3);
  const auto [cluster, mesh] = random_mesh();
  const Searched s(program, cluster, mesh);
  RC_LOG() << text(program);
  RC_CLASSIFY(exchanges_halos(s), "a halo is exchanged");
  RC_ASSERT(s.solution.search.optimal());
  RC_ASSERT(s.solution.cost == enumerated_cost(s.problem, s.shares));
  RC_ASSERT(MeshBound(s.problem, {}).relaxation().bound <= s.solution.cost);
  const SpmdProgram spmd = lower(s.problem, s.conversions, s.shares, s.solution.choices);
  RC_ASSERT(compare_with_reference(program, spmd, 7) == "");
}

RC_GTEST_PROP(TwoAxes, PlansComputeTheReference, ()) {
  Program program = random_program(6);
  auto [cluster, mesh] = random_mesh();
  Searched s(program, cluster, mesh);
  RC_CLASSIFY(uses_both_axes(s), "both axes divide work");
  SpmdProgram spmd = lower(s.problem, s.conversions, s.shares, s.solution.choices);
  RC_LOG() << text(spmd, program);
  RC_ASSERT(compare_with_reference(program, spmd, 7) == "");
}

// With tiny tables every bucket is split, so that A* has to search; it must end at the same optimum.
RC_GTEST_PROP(Search, MiniBucketsOnlyCostExpansions, ()) {
  Program program = random_program(5);
  Cluster cluster = random_cluster();
  Searched exact(program, cluster, RatioRule::even);
  SearchLimits tiny;
  tiny.table_limit = *rc::gen::element(4.0, 12.0, 40.0);
  Searched bounded(program, cluster, RatioRule::even, tiny);
  RC_ASSERT(bounded.solution.search.optimal());
  RC_ASSERT(bounded.solution.cost == exact.solution.cost);
  RC_ASSERT(exact.solution.search.expansions == exact.solution.search.variables);
}

TEST(Search, StoppedEarlyGivesAPlanAndABound) {
  Program program = mlp(8, {6, 12, 12, 4});
  Cluster cluster = cluster_of_speeds({1e9, 2e9, 3e9}, 1e9, 1e-8);
  Searched exact(program, cluster, RatioRule::even);
  SearchLimits limits;
  limits.table_limit = 4;
  limits.expansion_limit = 1;
  Searched stopped(program, cluster, RatioRule::even, limits);
  ASSERT_FALSE(stopped.solution.choices.empty());
  EXPECT_GE(stopped.solution.cost, exact.solution.cost);
  EXPECT_LE(stopped.solution.search.lower_bound, exact.solution.cost);
}

TEST(Search, SameInputSamePlan) {
  Program program = mlp(8, {6, 12, 4});
  Cluster cluster = cluster_of_speeds({1e9, 2e9, 3e9}, 1e9, 1e-8);
  Searched a(program, cluster, RatioRule::even), b(program, cluster, RatioRule::even);
  EXPECT_EQ(a.solution.choices, b.solution.choices);
}

}  // namespace
}  // namespace hetsynth
