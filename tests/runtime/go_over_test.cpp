// A run goes over from one division of its work to another between two steps: from then on it is to the bit the run
// that was started under the new plan from what the tensors were.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <random>

#include "dsl/base/error.h"
#include "runtime/launch.h"
#include "runtime/processes/placement.h"
#include "tests/runtime/models.h"
#include "tests/runtime/plans.h"
#include "tests/runtime/process_runs.h"
#include "verify/migration.h"

namespace hetsynth {
namespace {

using namespace testing;  // NOLINT: fixtures of this folder
using testing_support::DoubleProcesses;

/// A plan of some of five devices.
struct Division {
  Plan plan;
  Cluster cluster;
  std::vector<int> devices;
};

Cluster some_of(const std::vector<int>& devices) {
  const Cluster all = cpu_cluster({1, 2, 3, 4, 5});
  Cluster out = all;
  out.devices.clear();
  for (const int device : devices) out.devices.push_back(all.devices[size_t(device)]);
  return out;
}

Division random_division(const Program& program, std::mt19937_64& random, size_t count = 0) {
  std::vector<int> devices{0, 1, 2, 3, 4};
  std::ranges::shuffle(devices, random);
  devices.resize(count > 0 ? count : 1 + random() % 4);
  std::ranges::sort(devices);
  Division out{{}, some_of(devices), devices};
  std::vector<double> fractions;
  for (size_t i = 0; i < devices.size(); ++i) fractions.push_back(0.05 + double(random() % 100) / 100);
  out.plan = random_plan(program, out.cluster, fractions, random());
  return out;
}

std::vector<int> hosts_of(const Cluster& cluster) {
  std::vector<int> out;
  for (const Device& device : cluster.devices) out.push_back(device.host);
  return out;
}

Migration between(const Program& program, const Division& old_division, const Division& next) {
  std::vector<int> was;
  for (const int device : next.devices) {
    const auto found = std::ranges::find(old_division.devices, device);
    was.push_back(found == old_division.devices.end() ? -1 : int(found - old_division.devices.begin()));
  }
  Migration out = migration_between(program, old_division.plan.program, next.plan.program, was,
                                    hosts_of(old_division.cluster), hosts_of(next.cluster));
  EXPECT_EQ(flaw_of_migration(program, old_division.plan.program, next.plan.program, out), "");
  return out;
}

LaunchOptions launch_options(Job* job, const Cluster& cluster, int processes) {
  LaunchOptions out{.executor = {.seed = 3, .threads = {1, false}}, .optimization = 0};
  if (job) {
    out.executor.job = job;
    out.executor.process_of = place_ranks(cluster, processes);
  }
  return out;
}

void go_over(Executor& executor, const Program& program, const Division& old_division, const Division& next,
             Job* job = nullptr, int processes = 1) {
  const LaunchOptions options = launch_options(job, next.cluster, processes);
  CompiledRanks ranks = compile_ranks(program, next.plan.program, next.cluster, options);
  executor.go_over(ranks.mesh, std::move(ranks.programs), between(program, old_division, next), options.executor);
}

std::map<NodeId, std::vector<std::byte>> contents(const Program& program, const Executor& executor) {
  std::map<NodeId, std::vector<std::byte>> out;
  for (const Node& node : program.nodes)
    if (node.kind == NodeKind::parameter || node.kind == NodeKind::state) out[node.id] = executor.read(node.id).bytes;
  return out;
}

/// As from a checkpoint: whole tensors, set under the plan.
std::unique_ptr<Executor> begun_with(const Program& program, const Division& division, const Executor& like) {
  auto out = launch(program, division.plan.program, division.cluster, launch_options(nullptr, division.cluster, 1));
  for (const Node& node : program.nodes)
    if (node.kind == NodeKind::parameter || node.kind == NodeKind::state) out->write(node.id, like.read(node.id));
  return out;
}

/// HETSYNTH_CHANGES=200 makes more of them.
int changes_to_make() {
  const char* given = std::getenv("HETSYNTH_CHANGES");
  return given ? std::atoi(given) : 20;
}

class GoOver : public ::testing::TestWithParam<std::pair<const char*, Program (*)()>> {};

TEST_P(GoOver, IsToTheBitABeginningUnderTheNewPlan) {
  const Program program = GetParam().second();
  const auto data = open_data(program, {text_file(), 3});
  std::mt19937_64 random(41);
  Division division = random_division(program, random);
  auto executor =
      launch(program, division.plan.program, division.cluster, launch_options(nullptr, division.cluster, 1));
  int64_t step = 0;
  for (int change = 0; change < changes_to_make(); ++change) {
    for (int i = 0; i < 2; ++i) executor->step(step++, *data);
    const Division next = random_division(program, random);
    const auto before = contents(program, *executor);
    const auto anew = begun_with(program, next, *executor);
    go_over(*executor, program, division, next);
    ASSERT_EQ(contents(program, *executor), before) << "change " << change;
    ASSERT_EQ(executor->ranks(), int(next.devices.size()));
    for (int64_t i = 0; i < 2; ++i)
      ASSERT_EQ(executor->step(step + i, *data).loss, anew->step(step + i, *data).loss) << "change " << change;
    ASSERT_EQ(contents(program, *executor), contents(program, *anew)) << "change " << change;
    step += 2;
    division = next;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoOver, ::testing::Values(std::pair{"mlp", &small_mlp}, std::pair{"gpt", &small_gpt}),
                         [](const auto& info) { return std::string(info.param.first); });

TEST(GoOverOfProcesses, IsWhatOneProcessDoes) {
  const Program program = small_gpt();
  const auto data = open_data(program, {text_file(), 3});
  constexpr int processes = 3;
  std::mt19937_64 random(43);
  std::vector<Division> divisions;
  for (int i = 0; i <= changes_to_make() / 2; ++i) divisions.push_back(random_division(program, random, processes));
  const auto run = [&](Job* job) {
    const auto& first = divisions.front();
    auto executor = launch(program, first.plan.program, first.cluster, launch_options(job, first.cluster, processes));
    std::vector<double> losses;
    int64_t step = 0;
    for (size_t i = 1; i < divisions.size(); ++i) {
      for (int j = 0; j < 2; ++j) losses.push_back(executor->step(step++, *data).loss);
      go_over(*executor, program, divisions[i - 1], divisions[i], job, processes);
    }
    losses.push_back(executor->step(step++, *data).loss);
    return std::pair(losses, contents(program, *executor));
  };
  const auto alone = run(nullptr);
  DoubleProcesses network({"a", "b", "b"});
  const auto thrown = in_processes(network, processes, {}, [&](Job& job) {
    const auto outcome = run(&job);
    EXPECT_EQ(outcome.first, alone.first);
    EXPECT_EQ(outcome.second, alone.second);
  });
  EXPECT_THAT(thrown, ::testing::Each(""));
  EXPECT_EQ(network.undelivered(), 0);
}

TEST(GoOverOfProcesses, ALostOneEndsTheChangeByName) {
  const Program program = small_mlp();
  const auto data = open_data(program, {text_file(), 3});
  std::mt19937_64 random(47);
  const Division first = random_division(program, random, 2), next = random_division(program, random, 2);
  DoubleProcesses network({"a", "b"});
  const auto thrown = in_processes(network, 2, {.patience = std::chrono::milliseconds(400)}, [&](Job& job) {
    auto executor = launch(program, first.plan.program, first.cluster, launch_options(&job, first.cluster, 2));
    executor->step(0, *data);
    if (job.process() == 1) network.silence(1);
    go_over(*executor, program, first, next, &job, 2);
  });
  EXPECT_THAT(thrown[0], ::testing::AllOf(::testing::HasSubstr("process 1 on b"),
                                          ::testing::HasSubstr("nothing was heard of it")));
}

TEST(GoOverInMemory, WhatDoesNotFitChangesNothing) {
  const Program program = small_mlp();
  const auto data = open_data(program, {text_file(), 3});
  std::mt19937_64 random(53);
  const Division first = random_division(program, random, 2), next = random_division(program, random, 3);
  auto executor = launch(program, first.plan.program, first.cluster, launch_options(nullptr, first.cluster, 1));
  executor->step(0, *data);
  const auto before = contents(program, *executor);
  const LaunchOptions options = launch_options(nullptr, next.cluster, 1);
  CompiledRanks ranks = compile_ranks(program, next.plan.program, next.cluster, options);
  ranks.programs[1].layout.arena_bytes = int64_t(1) << 50;
  try {
    executor->go_over(ranks.mesh, std::move(ranks.programs), between(program, first, next), options.executor);
    FAIL() << "a petabyte";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), ::testing::AllOf(::testing::HasSubstr("does not fit beside this one"),
                                               ::testing::HasSubstr("1024.0 TiB beside the")));
  }
  EXPECT_EQ(contents(program, *executor), before);
  EXPECT_EQ(executor->ranks(), 2);
  executor->step(1, *data);
}

}  // namespace
}  // namespace hetsynth
