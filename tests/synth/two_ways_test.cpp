// Operations computed in two ways: the search against brute force, and plans that need them.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "brute_force.h"
#include "dsl/base/error.h"
#include "dsl/spmd/recomputation.h"
#include "programs.h"
#include "random_programs.h"
#include "searched.h"
#include "synth/bounds/mesh_bound.h"
#include "synth/planner/synthesize.h"
#include "synth/schedule/lower.h"

namespace hetsynth {
namespace {

using namespace synth;
using namespace testing_support;

Searched searched_in_two_ways(const Program& program, const Cluster& cluster) {
  return {std::make_shared<const Analysis>(program, 1, NestedCuts::none, true), cluster, flat_mesh(cluster)};
}

/// Operations that the solution computes in two ways.
int count(const Searched& s) {
  int out = 0;
  for (const Node& node : s.problem.program.nodes)
    out += !node.leaf() && s.problem.rules.options[node.id][size_t(s.solution.choices[node.id])].twice();
  return out;
}

/// A result that is cheap to compute, and operations that read it in one cut each, if they are not to communicate.
Program read_in_cuts(const std::vector<std::string>& readers, int64_t extent, bool trained) {
  ProgramBuilder b;
  const Expr in0 = Expr::input(0), in1 = Expr::input(1);
  const NodeId x = trained ? b.parameter("x", {extent, extent}) : b.input("x", {extent, extent});
  const NodeId h = b.op("h", "ab->ab", {x}, maximum(in0, 0.0));
  NodeId loss = -1;
  for (const std::string& reader : readers) {
    const std::string number = std::to_string(b.program.nodes.size());
    const NodeId read = b.op("read" + number, reader, {h}, in0 * in0);
    const std::string own = reader.substr(reader.find('>') + 1);
    const NodeId one = b.op("one" + number, own + "->", {read}, in0 * in0);
    loss = loss < 0 ? one : b.op("sum" + number, ",->", {loss, one}, in0 + in1);
  }
  b.program.loss = loss;
  b.phase(Phase::update);
  if (trained) b.program.updates.push_back({x, b.op("x_new", "ab,ab->ab", {x, h}, in0 - in1)});
  return b.program;
}

/// Devices whose links cost about as much as such an operation.
Cluster random_slow_cluster() {
  std::vector<double> speeds;
  for (int d = *rc::gen::inRange(3, 6); d > 0; --d) speeds.push_back(*rc::gen::element(2e8, 1e9));
  return cluster_of_speeds(speeds, *rc::gen::element(1e8, 1e9), *rc::gen::element(1e-4, 1e-3, 2e-3));
}

Program random_read_in_cuts(int most_readers) {
  std::vector<std::string> readers;
  for (int i = *rc::gen::inRange(2, most_readers + 1); i > 0; --i)
    readers.push_back(*rc::gen::element<std::string>("ab->a", "ab->b", "ab->a", "ab->b", "ab->ba"));
  return read_in_cuts(readers, *rc::gen::element(96, 300, 512), *rc::gen::inRange(0, 4) == 0);
}

RC_GTEST_PROP(TwoWays, EqualBruteForce, ()) {
  for (int i = 0; i < 4; ++i) {
    const bool any = *rc::gen::inRange(0, 4) == 0;
    const Program program = any ? random_program(3) : random_read_in_cuts(2);
    const Searched s = searched_in_two_ways(program, any ? random_cluster() : random_slow_cluster());
    RC_LOG() << text(program);
    RC_CLASSIFY(count(s) > 0, "some operation is computed in two ways");
    RC_ASSERT(s.solution.search.optimal());
    RC_ASSERT(s.solution.cost == brute_force_cost(s.problem, s.shares));
  }
}

RC_GTEST_PROP(TwoWays, AreNeverDearerAndComputeTheReference, ()) {
  const bool any = *rc::gen::inRange(0, 4) == 0;
  const Program program = any ? random_program(6) : random_read_in_cuts(4);
  const Cluster cluster = any ? random_cluster() : random_slow_cluster();
  const Searched s = searched_in_two_ways(program, cluster);
  const Problem one_way(program, cluster);
  const Conversions conversions(*one_way.analysis, one_way.cost, s.shares);
  const Picoseconds in_one = search(one_way, conversions, s.shares, {}, {}).cost;
  RC_ASSERT(s.solution.cost <= in_one);
  RC_ASSERT(count(s) > 0 || s.solution.cost == in_one);
  RC_ASSERT(MeshBound(s.problem, {}).relaxation().bound <= s.solution.cost);
  const SpmdProgram spmd = lower(s.problem, s.conversions, s.shares, s.solution.choices);
  RC_LOG() << text(spmd, program);
  RC_CLASSIFY(count(s) > 0, "some operation is computed in two ways");
  RC_ASSERT(computed_in_two_ways(spmd) == count(s));
  RC_ASSERT(compare_with_reference(program, spmd, 7) == "");
}

// With less memory than the fastest plan takes: what fits is right, and no bound is above a plan of the smaller space.
RC_GTEST_PROP(TwoWays, FitWhereMemoryIsShort, ()) {
  const Program program = random_read_in_cuts(3);
  Cluster cluster = cluster_of_speeds({1e9, 1e9, 1e9}, 1e8, *rc::gen::element(1e-4, 2e-3));
  SynthesisOptions one_way, two_ways;
  two_ways.two_ways = true;
  const int64_t taken = synthesize(program, cluster, two_ways).prediction.devices[0].memory_bytes;
  for (Device& device : cluster.devices) device.memory_bytes = taken * 9 / 10;
  const auto planned = [&](const SynthesisOptions& options) -> std::optional<Plan> {
    try {
      return synthesize(program, cluster, options);
    } catch (const UserError& error) {
      RC_ASSERT(error.code() == ExitCode::infeasible);
      return std::nullopt;
    }
  };
  const std::optional<Plan> one = planned(one_way), two = planned(two_ways);
  RC_CLASSIFY(two.has_value(), "something fits");
  if (two) {
    RC_ASSERT(compare_with_reference(program, two->program, 7) == "");
    RC_ASSERT(two->prediction.lower_bound_seconds <= two->prediction.step_seconds);
  }
  // Devices that are alike all have the same shares.
  if (one && two) RC_ASSERT(two->prediction.lower_bound_seconds <= one->prediction.step_seconds);
}

TEST(TwoWays, PayWhereAResultIsReadInTwoCuts) {
  const Program program = read_in_cuts({"ab->a", "ab->b"}, 512, false);
  const Cluster cluster = cluster_of_speeds({1e9, 1e9, 1e9, 1e9}, 1e8, 2e-3);
  const Searched s = searched_in_two_ways(program, cluster);
  EXPECT_EQ(count(s), 1);
  EXPECT_EQ(s.solution.cost, brute_force_cost(s.problem, s.shares));
  SynthesisOptions options;
  const Plan one = synthesize(program, cluster, options);
  options.two_ways = true;
  const Plan two = synthesize(program, cluster, options);
  EXPECT_EQ(computed_in_two_ways(one.program), 0);
  EXPECT_GT(computed_in_two_ways(two.program), 0) << text(two.program, program);
  EXPECT_LT(two.prediction.step_seconds, one.prediction.step_seconds);
  EXPECT_TRUE(two.prediction.optimal);
  EXPECT_EQ(compare_with_reference(program, two.program, 7), "");
  const Plan read = plan_from_json(plan_to_json(two, program), "plan.json", program);
  EXPECT_TRUE(read.prediction.two_ways);
  EXPECT_FALSE(one.prediction.two_ways);
  EXPECT_EQ(read.program, canonical(two.program));
}

}  // namespace
}  // namespace hetsynth
