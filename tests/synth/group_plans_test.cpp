// Plans of one group of a pipeline: on which meshes, and that no division of them takes less than the ideal one.
#include "synth/stages/group_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "dsl/transform/differentiate.h"
#include "dsl/transform/turns.h"
#include "hetsynth/hetsynth.h"
#include "programs.h"
#include "synth/mesh/device_subsets.h"
#include "synth/stages/group_costs.h"

namespace hetsynth {
namespace {

using namespace synth;
using namespace testing_support;
using ::testing::ElementsAre;

/// Hosts of so many equal GPUs, much faster inside than between.
Cluster hosts_of(int hosts, int devices) {
  Cluster cluster = cluster_of_speeds(std::vector<double>(size_t(hosts * devices), 1e12), 1e9, 1e-5, {});
  const Link between = cluster.hosts.at(0).inside;
  cluster.hosts.resize(size_t(hosts), cluster.hosts.at(0));
  cluster.between = between;
  for (Host& host : cluster.hosts) host.inside = {1e11, 1e-6};
  for (size_t d = 0; d < cluster.devices.size(); ++d) cluster.devices[d].host = int(d) / devices;
  return cluster;
}

std::vector<std::vector<int>> sizes_of(const std::vector<Mesh>& meshes) {
  std::vector<std::vector<int>> out;
  for (const Mesh& mesh : meshes) {
    out.emplace_back();
    for (const Mesh::Axis& axis : mesh.axes) out.back().push_back(axis.size);
  }
  return out;
}

TEST(GroupPlans, TakeOneAxisAndFromFourDevicesOnHostsAndTheirDevices) {
  EXPECT_THAT(sizes_of(group_meshes(hosts_of(1, 1))), ElementsAre(ElementsAre(1)));
  EXPECT_THAT(sizes_of(group_meshes(hosts_of(1, 2))), ElementsAre(ElementsAre(2)));
  EXPECT_THAT(sizes_of(group_meshes(hosts_of(1, 4))), ElementsAre(ElementsAre(4), ElementsAre(2, 2)));
  EXPECT_THAT(sizes_of(group_meshes(hosts_of(1, 8))), ElementsAre(ElementsAre(8), ElementsAre(2, 4)));
  EXPECT_THAT(sizes_of(group_meshes(hosts_of(2, 8))), ElementsAre(ElementsAre(16), ElementsAre(2, 8)));
}

/// Layers of products, each with a residual connection around it.
Program residual_layers(int layers, int64_t batch, int64_t width) {
  Trace trace("layers.cpp");
  run_builder(trace, [&] {
    auto [samples, labels] = synthetic_batch(batch, width, width);
    Tensor x = samples;
    for (int layer = 0; layer < layers; ++layer) {
      const std::string name = "layer" + std::to_string(layer);
      Tensor inner = relu(matmul(x, parameter(name + ".up", {width, 4 * width}, normal(0.05))));
      x = x + matmul(inner, parameter(name + ".down", {4 * width, width}, normal(0.05)));
    }
    minimize(cross_entropy(x, labels), AdamW{});
  });
  return differentiate(trace);
}

struct InTurns {
  Program program;
  StagePositions positions = stage_positions(program);
  std::map<int, std::shared_ptr<const Analysis>> known = {};

  explicit InTurns(const Program& whole, int64_t turns) : program(take_turns(whole, {turns}).program.value()) {}
  AnalysisOfAxes analysis() {
    return [this](int axes) {
      std::shared_ptr<const Analysis>& of = known[axes];
      if (!of)
        of = axes == 0 ? Analysis::of_one_device(*analysis()(1)) : std::make_shared<const Analysis>(program, axes);
      return of;
    };
  }
};

TEST(GroupPlans, NoDivisionTakesLessThanTheIdealOne) {
  for (const int64_t turns : {2, 8})
    for (const auto& [hosts, devices, size] : {std::tuple{2, 1, 1}, {2, 4, 4}, {1, 8, 2}, {4, 2, 4}}) {
      InTurns step(residual_layers(6, 64, 32), turns);
      const Cluster cluster = hosts_of(hosts, devices);
      const DeviceGroups groups = groups_of(cluster, size);
      const std::string what = ::testing::PrintToString(std::tuple{turns, hosts, devices, size});
      const std::vector<StageDivision> ideal =
          divide_into_stages(ideal_stage_problem(step.analysis(), cluster, groups, step.positions), 1);
      ASSERT_FALSE(ideal.empty()) << what;
      const Cluster one = restricted(cluster, groups.groups[0]);
      for (const Mesh& mesh : group_meshes(one))
        for (const GroupPlan& plan : group_plans(step.analysis(), one, mesh)) {
          const StageProblem problem = stage_problem(plan.analysis, cluster, groups, plan.program, step.positions);
          const std::vector<StageDivision> found = divide_into_stages(problem, 1);
          ASSERT_FALSE(found.empty()) << what;
          EXPECT_LE(ideal[0].seconds, found[0].seconds * (1 + 1e-9)) << what << ", axes " << mesh.axes.size();
        }
    }
}

}  // namespace
}  // namespace hetsynth
