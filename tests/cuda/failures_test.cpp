// What goes wrong with GPUs: each is a message that says what was found and what to do, within seconds, and leaves
// nothing behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>

#include "dsl/base/error.h"
#include "runtime/rank/run_state.h"
#include "synth/planner/synthesize.h"
#include "training.h"

namespace hetsynth::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_support::MachineOptions;

const SmallModel& mlp() { return small_models()[0]; }

/// What the run ends with; "" if it does not fail.
std::string failure(const MachineOptions& options, Cluster cluster = devices({1, 3})) {
  const Plan plan = cluster.devices.size() == 1
                        ? single_device_plan(program_of(mlp()), cluster)
                        : data_parallel_plan(program_of(mlp()), cluster, RatioRule::proportional);
  const auto start = std::chrono::steady_clock::now();
  std::string out;
  try {
    train_on_doubles(mlp(), plan, cluster, options);
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::failure);
    out = error.what();
  } catch (const RunFailed& error) {
    out = error.what();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  return out;
}

TEST(CudaFailures, NoDriver) {
  MachineOptions options;
  options.has_driver = false;
  EXPECT_THAT(failure(options), AllOf(HasSubstr("device gpu0 is a cuda device, and this machine has no NVIDIA driver"),
                                      HasSubstr("libcuda.so.1: cannot open"),
                                      HasSubstr("plan, verify and inspect work for this cluster")));
}

TEST(CudaFailures, DriverOlderThanTheToolkit) {
  MachineOptions options;
  options.driver_version = 12040;
  EXPECT_THAT(failure(options), AllOf(HasSubstr("the driver is older than the toolkit"),
                                      HasSubstr("a driver of CUDA 13 or later, as NVRTC 13.0 compiles for"),
                                      HasSubstr("a driver of CUDA 12.4"), HasSubstr("install NVRTC 12")));
}

TEST(CudaFailures, NoCompilerOfKernels) {
  MachineOptions options;
  options.toolkit.available = false;
  options.toolkit.problem = "NVRTC is not installed";
  EXPECT_THAT(failure(options), AllOf(HasSubstr("its kernels cannot be compiled"), HasSubstr("libnvrtc.so.13 or .12"),
                                      HasSubstr("NVRTC is not installed")));
}

TEST(CudaFailures, NoCublas) {
  MachineOptions options;
  options.has_cublas = false;
  EXPECT_THAT(failure(options), AllOf(HasSubstr("its matrix products need cublasLt"), HasSubstr("libcublasLt.so.13")));
}

TEST(CudaFailures, NoNccl) {
  MachineOptions options;
  options.has_nccl = false;
  EXPECT_THAT(failure(options), AllOf(HasSubstr("2 GPUs exchange data through NCCL"), HasSubstr("libnccl.so.2"),
                                      HasSubstr("use a cluster with one GPU")));
  EXPECT_EQ(failure(options, devices({1})), "") << "a single GPU needs no NCCL";
}

TEST(CudaFailures, MixedVersionsOfNccl) {
  MachineOptions options;
  options.nccl_versions[1] = 22703;
  EXPECT_THAT(failure(options),
              AllOf(HasSubstr("2.27.3"), HasSubstr("2.28.9"), HasSubstr("all ranks need the same version")));
}

TEST(CudaFailures, UnsupportedArchitecture) {
  MachineOptions options;
  options.major = 7, options.minor = 0;
  EXPECT_THAT(failure(options), AllOf(HasSubstr("NVRTC 13.0 does not compile for its architecture"),
                                      HasSubstr("found:    sm_70"), HasSubstr("install NVRTC 12")));
}

TEST(CudaFailures, AnArchitectureThatOnlyClangCompilesForRuns) {
  MachineOptions options;
  options.major = 7, options.minor = 0;
  options.toolkit.through_clang = {"sm_60", "sm_70"};
  options.cublas_version = 120804, options.nccl_release = 12;
  EXPECT_EQ(failure(options), "");
}

TEST(CudaFailures, LibrariesWithoutCodeForTheGpu) {
  MachineOptions options;
  options.major = 7, options.minor = 0;
  options.toolkit.through_clang = {"sm_60", "sm_70"};
  EXPECT_THAT(failure(options),
              AllOf(HasSubstr("device gpu0 is a cuda device, and cublasLt of CUDA 13 has no code for its architecture"),
                    HasSubstr("cublasLt of CUDA 12, the last for GPUs before sm_75"),
                    HasSubstr("sm_70 and libcublasLt.so of doubles"), HasSubstr("pip install nvidia-cublas-cu12")));
  options.cublas_version = 120804;
  EXPECT_THAT(failure(options),
              AllOf(HasSubstr("NCCL of CUDA 13 has no code for its architecture"),
                    HasSubstr("sm_70 and libnccl.so.2 of doubles"), HasSubstr("pip install nvidia-nccl-cu12")));
  EXPECT_EQ(failure(options, devices({1})), "") << "a single GPU needs no NCCL";
}

TEST(CudaFailures, LibrariesThatAreNewerThanTheDriver) {
  MachineOptions options;
  options.driver_version = 12040;
  options.toolkit.major = 12, options.toolkit.minor = 4;
  EXPECT_THAT(failure(options),
              AllOf(HasSubstr("cublasLt of CUDA 13 has no code for so old a driver"),
                    HasSubstr("cublasLt of CUDA 12, as the driver"), HasSubstr("a driver of CUDA 12.4")));
}

TEST(CudaFailures, Bf16OnGpusThatCannotMultiplyIt) {
  MachineOptions options;
  options.major = 7, options.minor = 5;
  const SmallModel& gpt = small_models().at(4);
  ASSERT_EQ(gpt.name, "GptBf16");
  for (const char* declared : {"sm_75", "sm_80"}) {
    Cluster cluster = devices({1});
    cluster.devices[0].architecture = declared;
    try {
      train_on_doubles(gpt, single_device_plan(program_of(gpt), cluster), cluster, options);
      FAIL() << declared;
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::failure);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("the model multiplies bf16, and device gpu0 cannot"),
                                      HasSubstr("sm_80 or later"), HasSubstr("found:    sm_75"),
                                      HasSubstr("train in fp16 with a DynamicLossScale (--set precision=fp16")));
    }
  }
  EXPECT_EQ(failure(options, devices({1})), "") << "float32 runs";
}

TEST(CudaFailures, KernelsForTensorCoresThatTheGpuHasNot) {
  MachineOptions options;
  options.major = 7, options.minor = 0;
  options.toolkit.through_clang = {"sm_60", "sm_70"};
  options.cublas_version = 120000;
  SmallModel gpt = small_models().at(5);
  gpt.name = "GptFp16OfWideHeads";
  gpt.settings["width"] = "32";
  Cluster cluster = devices({1});
  cluster.devices[0].architecture = "sm_80";
  try {
    train_on_doubles(gpt, single_device_plan(program_of(gpt), cluster), cluster, options);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("multiply fp16 by tensor cores, and device gpu0 has none for them"),
                                    HasSubstr("expected: sm_75 or later"), HasSubstr("found:    sm_70"),
                                    HasSubstr("write architecture = \"sm_70\" in the cluster file")));
  }
}

TEST(CudaFailures, FewerGpusThanTheClusterNames) {
  Cluster cluster = devices({1, 3});
  cluster.devices[1].index = 7;
  EXPECT_THAT(failure({}, cluster), AllOf(HasSubstr("device gpu1 is a cuda device, and it is GPU 7 of its host"),
                                          HasSubstr("8 GPUs"), HasSubstr("found:    2 GPUs")));
}

TEST(CudaFailures, TwoRanksOnOneGpu) {
  Cluster cluster = devices({1, 3});
  cluster.devices[1].index = 0;
  EXPECT_THAT(failure({}, cluster), AllOf(HasSubstr("it is the same GPU 0 as gpu0"), HasSubstr("NCCL 2.30 or later"),
                                          HasSubstr("NCCL 2.28.9")));
}

TEST(CudaFailures, GpusOfSeveralHosts) {
  Cluster cluster = devices({1, 3});
  cluster.hosts.push_back(cluster.hosts[0]);
  cluster.between = {1e9, 1e-5};
  cluster.devices[1].host = 1;
  EXPECT_THAT(failure({}, cluster), HasSubstr("it is on another host than gpu0"));
}

TEST(CudaFailures, MemoryThatIsNotThereIsToldWithTheLargestTensors) {
  MachineOptions options;
  options.memory_bytes = size_t(32) << 20;  // as much as the workspace of matrix products alone
  EXPECT_THAT(failure(options), AllOf(HasSubstr("has no room for rank"), HasSubstr("32.0 MiB for matrix products"),
                                      HasSubstr("32.0 MiB free of 32.0 MiB"), HasSubstr("w2 takes 10.0 KiB")));
}

TEST(CudaFailures, AnAllocationThatIsRefusedAllTheSame) {
  MachineOptions options;
  options.refused_allocation = 2;
  EXPECT_THAT(failure(options), AllOf(HasSubstr("has no room for rank"), HasSubstr("256.0 MiB free")));
}

TEST(CudaFailures, ARankThatDiesInsideACollectiveEndsAll) {
  MachineOptions options;
  options.before_collective = [](int gpu, const std::string&) {
    if (gpu == 1) throw std::runtime_error("fell off the bus");
  };
  const std::string told = failure(options, devices({1, 3, 2}));
  EXPECT_THAT(told, AllOf(HasSubstr("rank 1 (gpu1) failed"), HasSubstr("fell off the bus")));
}

TEST(CudaFailures, ARecordedStepIsGivenBackBeforeItsCommunicators) {
  const Cluster cluster = devices({1, 3});
  const Plan plan = data_parallel_plan(program_of(mlp()), cluster, RatioRule::proportional);
  int all = 0, calls = 0;
  MachineOptions options;
  options.before_collective = [&all](int gpu, const std::string&) { all += gpu == 1; };
  EXPECT_EQ(train_on_doubles(mlp(), plan, cluster, options).left_behind, "");
  ASSERT_GT(all, small_steps);
  options.before_collective = [&](int gpu, const std::string&) {
    if (gpu == 1 && ++calls == all) throw std::runtime_error("fell off the bus");  // in a step that is replayed
  };
  const TrainedProcesses trained = train_in_processes(mlp(), plan, cluster, 2, options);
  EXPECT_THAT(trained.thrown[1], HasSubstr("fell off the bus"));
  EXPECT_EQ(trained.left_behind, "");
}

TEST(CudaFailures, ARankThatDiesOutsideOfACollectiveEndsAllWhoWaitForIt) {
  const Cluster cluster = devices({1, 3, 2}, {1});
  MachineOptions options;
  int calls = 0;
  options.before_collective = [&calls](int gpu, const std::string&) {
    if (gpu == 0 && ++calls == 2) throw std::runtime_error("ECC error");
  };
  EXPECT_THAT(failure(options, cluster), AllOf(HasSubstr("rank 0 (gpu0) failed"), HasSubstr("ECC error")));
}

}  // namespace
}  // namespace hetsynth::testing
