// GPUs of several processes: the id of NCCL comes from the first one, and what goes wrong in one ends all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>

#include "synth/planner/synthesize.h"
#include "training.h"

namespace hetsynth::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;

const SmallModel& mlp() { return small_models().front(); }
const SmallModel& gpt() { return small_models().at(1); }

/// The second half of the devices is on a second host.
Cluster on_two_hosts(const std::vector<double>& speeds, const std::vector<int>& cpus = {}) {
  Cluster cluster = devices(speeds, cpus);
  cluster.hosts.resize(2, cluster.hosts.front());
  cluster.between = cluster.hosts.front().inside;
  for (size_t i = speeds.size() / 2; i < speeds.size(); ++i) cluster.devices[i].host = 1;
  return cluster;
}

void expect_float64_losses(const SmallModel& model, const TrainedProcesses& trained) {
  EXPECT_THAT(trained.thrown, Each(""));
  EXPECT_EQ(trained.left_behind, "");
  const std::vector<double>& expected = float64_losses(model);
  for (const std::vector<double>& losses : trained.losses) {
    ASSERT_EQ(losses.size(), expected.size());
    for (size_t step = 0; step < expected.size(); ++step)
      EXPECT_NEAR(losses[step], expected[step], model.bound * (1 + std::abs(expected[step]))) << "step " << step;
  }
}

TEST(CudaProcesses, FourGpusInTwoProcessesAndInFour) {
  const Cluster cluster = on_two_hosts({1, 2, 3, 4});
  const Plan plan = data_parallel_plan(program_of(gpt()), cluster, RatioRule::proportional);
  for (const int processes : {2, 4}) expect_float64_losses(gpt(), train_in_processes(gpt(), plan, cluster, processes));
}

TEST(CudaProcesses, EachHostHasAGpuAndACpu) {
  const Cluster cluster = on_two_hosts({3, 1, 2, 1}, {1, 3});
  const Plan plan = data_parallel_plan(program_of(mlp()), cluster, RatioRule::proportional);
  for (const int processes : {2, 4}) expect_float64_losses(mlp(), train_in_processes(mlp(), plan, cluster, processes));
}

TEST(CudaProcesses, ARankThatDiesInsideACollectiveEndsAllProcesses) {
  const Cluster cluster = on_two_hosts({1, 1, 1, 1});
  const Plan plan = data_parallel_plan(program_of(mlp()), cluster, RatioRule::even);
  std::atomic<int> calls{0};
  testing_support::MachineOptions options;
  options.before_collective = [&](int gpu, const std::string&) {
    if (gpu == 3 && ++calls == 4) throw std::runtime_error("GPU 3 has fallen off the bus");
  };
  const auto start = std::chrono::steady_clock::now();
  const TrainedProcesses trained = train_in_processes(mlp(), plan, cluster, 2, options);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  EXPECT_THAT(trained.thrown[1], HasSubstr("GPU 3 has fallen off the bus"));
  EXPECT_THAT(trained.thrown[0], AllOf(HasSubstr("process 1 on doubles failed"), HasSubstr("fallen off the bus")));
  EXPECT_EQ(trained.left_behind, "");
}

TEST(CudaProcesses, AnotherVersionOfNcclIsNamed) {
  const Cluster cluster = on_two_hosts({1, 1});
  const Plan plan = data_parallel_plan(program_of(mlp()), cluster, RatioRule::even);
  testing_support::MachineOptions options;
  options.nccl_versions = {{1, 22403}};
  const TrainedProcesses trained = train_in_processes(mlp(), plan, cluster, 2, options);
  EXPECT_THAT(trained.thrown[1], AllOf(HasSubstr("NCCL 2.24.3 is loaded here and NCCL 2.28.9 on rank 0"),
                                       HasSubstr("all ranks need the same version")));
  EXPECT_THAT(trained.thrown[0], HasSubstr("NCCL 2.24.3"));
  EXPECT_EQ(trained.left_behind, "");
}

}  // namespace
}  // namespace hetsynth::testing
