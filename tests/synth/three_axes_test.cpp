// Meshes of three axes, the first of them one of depth: exactness by exchange, value against the reference, and 2.5D.
#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include "dsl/spmd/nested_cut.h"
#include "programs.h"
#include "random_programs.h"
#include "searched.h"
#include "synth/bounds/mesh_bound.h"
#include "synth/mesh/meshes.h"
#include "synth/planner/synthesize.h"
#include "synth/schedule/lower.h"

namespace hetsynth {
namespace {

using namespace synth;
using namespace testing_support;

/// Eight or twelve devices of random speeds on one or two hosts.
std::pair<Cluster, Mesh> random_deep_mesh() {
  const int depth = *rc::gen::inRange(2, 4);
  std::vector<double> speeds;
  for (int d = 0; d < 4 * depth; ++d) speeds.push_back(*rc::gen::element(1e9, 1e9, 3e9));
  Cluster cluster = cluster_of_speeds(speeds, *rc::gen::element(1e7, 1e9), 1e-7);
  cluster.between = {*rc::gen::element(1e6, 1e8), 1e-6};
  cluster.hosts.resize(2, cluster.hosts[0]);
  if (*rc::gen::arbitrary<bool>())
    for (size_t d = 4; d < speeds.size(); ++d) cluster.devices[d].host = 1;
  return {cluster, mesh_of({depth, 2, 2})};
}

/// Without windows, whose halos three axes do without.
RC_GTEST_PROP(ThreeAxes, ADepthOfOneDeviceChangesNothing, ()) {
  const Program program = random_program(3, false);
  const auto [cluster, mesh] = random_mesh();
  Mesh deep = mesh;
  deep.axes.insert(deep.axes.begin(), {"depth", 1});
  const Searched flat(program, cluster, mesh), three(program, cluster, deep);
  RC_LOG() << text(program);
  RC_ASSERT(three.solution.search.optimal());
  // Of three axes none divides another's parts.
  const SpmdProgram spmd = lower(flat.problem, flat.conversions, flat.shares, flat.solution.choices);
  const bool nested = std::ranges::any_of(spmd.tables, nests);
  RC_CLASSIFY(nested, "two axes cut one dimension");
  RC_ASSERT(three.solution.cost >= flat.solution.cost);
  if (!nested) RC_ASSERT(three.solution.cost == flat.solution.cost);
}

RC_GTEST_PROP(ThreeAxes, NoOtherChoiceOfAnOperationIsCheaper, ()) {
  const Program program = random_program(3);
  const auto [cluster, mesh] = random_deep_mesh();
  const Searched s(program, cluster, mesh);
  RC_LOG() << text(program);
  RC_ASSERT(s.solution.search.optimal());
  bool deep = false;
  for (const Node& node : program.nodes) {
    if (node.leaf()) continue;
    const auto& options = s.problem.rules.options[node.id];
    deep = deep || options[size_t(s.solution.choices[node.id])].factor[0] >= 0;
    for (int option = 0; option < int(options.size()); ++option) {
      Choices other = s.solution.choices;
      other.of[size_t(node.id)] = option;
      RC_ASSERT(total_cost(s.problem, s.conversions, s.shares, other) >= s.solution.cost);
    }
  }
  RC_CLASSIFY(deep, "the axis of depth divides work");
}

RC_GTEST_PROP(ThreeAxes, PlansComputeTheReference, ()) {
  const Program program = random_program(4);
  const auto [cluster, mesh] = random_deep_mesh();
  const Searched s(program, cluster, mesh);
  const SpmdProgram spmd = lower(s.problem, s.conversions, s.shares, s.solution.choices);
  RC_LOG() << text(spmd, program);
  RC_ASSERT(compare_with_reference(program, spmd, 7) == "");
}

RC_GTEST_PROP(ThreeAxes, NothingIsBelowTheBoundOverShares, ()) {
  const Program program = random_program(3);
  const auto [cluster, mesh] = random_deep_mesh();
  const Searched s(program, cluster, mesh);
  const Picoseconds bound = MeshBound(s.problem, {}).relaxation().bound;
  RC_ASSERT(bound > 0);
  RC_ASSERT(bound <= s.solution.cost);
}

TEST(ThreeAxes, MeshesHoldEveryDeviceOnceAndKeepTheInnerAxisWithinHosts) {
  Cluster cluster = cluster_of_speeds(std::vector<double>(16, 1e9));
  cluster.hosts.resize(4, cluster.hosts[0]);
  for (size_t d = 0; d < 16; ++d) cluster.devices[d].host = int(d / 4);
  std::vector<std::vector<int>> sizes;
  for (const Mesh& mesh : three_axis_meshes(cluster)) {
    sizes.emplace_back();
    for (const Mesh::Axis& axis : mesh.axes) sizes.back().push_back(axis.size);
  }
  EXPECT_THAT(sizes, testing::ElementsAre(testing::ElementsAre(2, 2, 4), testing::ElementsAre(4, 2, 2),
                                          testing::ElementsAre(2, 4, 2)));
}

/// The best plan for matrix products in a row on 64 equal devices with equal links.
Plan best_plan_of(const Program& program) {
  const Cluster cluster = cluster_of_speeds(std::vector<double>(64, 1e14), 5e11, 1e-9);
  SynthesisOptions options;
  options.most_axes = 3;
  return synthesize(program, cluster, options);
}

/// By axis: the letter that it splits an operator by.
std::string splits_of(const Program& program, const Plan& plan, const std::string& name) {
  for (const Instruction& i : plan.program.instructions) {
    if (i.opcode != Opcode::compute || program[i.node].name != name) continue;
    std::string letters;
    for (const Split& split : i.splits)
      letters += split.factor < 0 ? "-" : program[i.node].space.factors[size_t(split.factor)].name;
    return letters;
  }
  throw InternalError("no operator " + name);
}

std::vector<int> mesh_sizes(const Plan& plan) {
  std::vector<int> sizes;
  for (const Mesh::Axis& axis : plan.program.mesh.axes) sizes.push_back(axis.size);
  return sizes;
}

// 2.5D (arXiv 2105.14500): samples over the depth, each product over q x q, weight gradients summed over the depth.
// With depth d a device moves parts of X / d and of W, so depth pays the more, the more tokens there are against the
// width.
TEST(ThreeAxes, DepthPaysWhereThereAreManyTokensForTheWidth) {
  const std::vector<int64_t> widths(5, 1024);
  const Program few = mlp(256, widths), many = mlp(2048, widths), most = mlp(8192, widths);
  const Plan flat = best_plan_of(few), deep = best_plan_of(many), deepest = best_plan_of(most);
  EXPECT_THAT(mesh_sizes(deepest), testing::ElementsAre(16, 2, 2));
  EXPECT_THAT(mesh_sizes(deep), testing::ElementsAre(4, 4, 4));
  EXPECT_EQ(splits_of(many, deep, "z1"), "bnk");
  EXPECT_EQ(splits_of(many, deep, "z2"), "bkn");
  EXPECT_EQ(splits_of(many, deep, "d_w1"), "bnk");
  const auto summed = [&](const Instruction& i) {
    return (i.opcode == Opcode::reduce_scatter || i.opcode == Opcode::all_reduce) && i.axis == 0 &&
           many[deep.program.values[size_t(i.result)].node].name == "d_w1";
  };
  EXPECT_TRUE(std::any_of(deep.program.instructions.begin(), deep.program.instructions.end(), summed));
  EXPECT_THAT(mesh_sizes(flat), testing::ElementsAre(8, 8));
}

}  // namespace
}  // namespace hetsynth
