// The stand-alone project of cuda ranks: nvcc builds it outside of hetsynth. Nothing of it can run here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "codegen/standalone.h"
#include "cuda_classifier.h"
#include "cuda_programs.h"
#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "synth/planner/synthesize.h"

namespace hetsynth::testing_support {
namespace {

namespace fs = std::filesystem;

/// Exit status and what the command printed.
std::pair<int, std::string> run(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::string out;
  char buffer[4096];
  while (size_t n = fread(buffer, 1, sizeof buffer, pipe)) out.append(buffer, n);
  return {pclose(pipe), out};
}

class CudaStandalone : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "hetsynth-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::vector<double>& speeds) const {
    Trace trace("classifier.cpp");
    run_builder(trace, classifier);
    const Program reference = differentiate(trace);
    const Cluster cluster = cuda_cluster(speeds);
    const Plan plan = speeds.size() == 1 ? single_device_plan(reference, cluster)
                                         : data_parallel_plan(reference, cluster, RatioRule::proportional);
    write_standalone_project((folder_ / "step").string(), reference, plan.program, cluster);
  }

  fs::path folder_;
};

TEST_F(CudaStandalone, HoldsAMainProgramAndATableOfKernels) {
  write({1, 2});
  for (const char* file : {"main.cu", "ranks.h", "rank0_host.cpp", "rank0_kernels.cu", "rank0_kernel_table.h",
                           "rank1_host.cpp", "rank1_kernels.cu", "rank1_kernel_table.h"})
    EXPECT_TRUE(fs::exists(folder_ / "step" / file)) << file;
  std::stringstream cmake;
  cmake << std::ifstream(folder_ / "step/CMakeLists.txt").rdbuf();
  EXPECT_THAT(cmake.str(), ::testing::HasSubstr("set(CMAKE_CUDA_ARCHITECTURES 80)"));
  EXPECT_THAT(cmake.str(), ::testing::HasSubstr("add_executable(rank1 main.cu rank1_host.cpp)"));
}

TEST_F(CudaStandalone, NvccBuildsBothRanks) {
  if (run("nvcc --version").first != 0) GTEST_SKIP() << "no nvcc here";
  write({1, 2});
  const std::string step = (folder_ / "step").string();
  const auto [configured, configuring] = run("cmake -G Ninja -S " + step + " -B " + step + "/build");
  if (configuring.find("NCCL") != std::string::npos && configured != 0) GTEST_SKIP() << "no NCCL here: " << configuring;
  ASSERT_EQ(configured, 0) << configuring;
  const auto [built, building] = run("cmake --build " + step + "/build");
  ASSERT_EQ(built, 0) << building;
  EXPECT_TRUE(fs::exists(step + "/build/rank0"));
  // Without a driver the program says so instead of computing.
  const auto [status, printed] = run(step + "/build/rank0");
  if (status != 0) {
    EXPECT_THAT(printed, ::testing::HasSubstr("rank 0: cudaGetDeviceCount"));
  }
}

}  // namespace
}  // namespace hetsynth::testing_support
