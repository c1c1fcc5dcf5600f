// What doctor finds and how it says it.
#include "runtime/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "hetsynth/build_paths.h"
#include "tests/support/cuda/cuda_doubles.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const Finding& find(const std::vector<Finding>& findings, const std::string& name) {
  for (const Finding& finding : findings) {
    if (finding.name == name) return finding;
  }
  throw std::runtime_error("no finding " + name);
}

TEST(Doctor, ThisMachineCanTrain) {
  const auto findings = examine({"Z3 4.8.12", HETSYNTH_SOURCE_DIR "/dsl/include"});
  EXPECT_TRUE(healthy(findings)) << text(findings);
  EXPECT_THAT(find(findings, "compiler").detail, HasSubstr("compiled and ran a function"));
  EXPECT_THAT(find(findings, "processor").detail, HasSubstr("cores"));
  EXPECT_EQ(find(findings, "solver").detail, "Z3 4.8.12");
  // Whatever CUDA libraries there are, each has a line.
  for (const char* library : {"CUDA driver", "CUDA NVRTC", "CUDA NCCL"})
    EXPECT_FALSE(find(findings, library).detail.empty());
}

TEST(Doctor, WhatIsMissingIsBrokenAndSaysHowToMendIt) {
  const auto findings = examine({"", "/nowhere"});
  EXPECT_FALSE(healthy(findings));
  EXPECT_EQ(find(findings, "solver").health, Health::broken);
  EXPECT_THAT(find(findings, "model headers").detail, HasSubstr("/nowhere"));
  EXPECT_FALSE(find(findings, "model headers").mend.empty());
}

TEST(Doctor, SaysWhatMissingCudaLibrariesAreFor) {
  for (const Finding& finding : examine({"Z3 4.8.12", HETSYNTH_SOURCE_DIR "/dsl/include"})) {
    if (!finding.name.starts_with("CUDA ") || finding.health == Health::good) continue;
    EXPECT_THAT(finding.mend, HasSubstr("cluster")) << finding.name;
  }
}

TEST(Doctor, TellsWhatAClusterNeeds) {
  const Cluster cluster = parse_cluster(
      "name = \"two\"\n[[host]]\ninside = { bandwidth = \"10 GB/s\", latency = \"8 us\" }\n[[host.device]]\nmodel = "
      "\"A100\"\ncount = 2\n[[host.device]]\nkind = \"cpu\"\nmemory = \"1 GiB\"\ndeclared = { matmul = \"1 GFLOP/s\", "
      "memory_bandwidth = \"1 GB/s\" }\n",
      "two.toml");
  testing_support::MachineOptions options;
  options.gpus = 2;
  {
    const testing_support::CudaDoubles machine(options);
    const auto findings = examine({"", "", &cluster, &machine.backend()});
    EXPECT_EQ(find(findings, "cluster").detail, "two.toml: 1 cpu and 2 cuda devices can run here");
  }
  options.has_nccl = false;
  const testing_support::CudaDoubles machine(options);
  const auto findings = examine({"", "", &cluster, &machine.backend()});
  EXPECT_EQ(find(findings, "cluster").health, Health::absent);
  EXPECT_THAT(find(findings, "cluster").detail,
              AllOf(HasSubstr("two.toml cannot run here"), HasSubstr("2 GPUs exchange data through NCCL")));
  EXPECT_THAT(find(findings, "cluster").mend, HasSubstr("install NCCL"));
}

TEST(Doctor, ReportsAsTextAndJson) {
  const std::vector<Finding> findings{{"compiler", Health::good, "clang 19", ""},
                                      {"MPI", Health::absent, "no mpirun", "install openmpi-bin"}};
  EXPECT_EQ(text(findings),
            "compiler  good    clang 19\n"
            "MPI       absent  no mpirun\n"
            "                  -> install openmpi-bin\n");
  EXPECT_EQ(to_json(findings).dump(),
            R"([{"name":"compiler","status":"good","detail":"clang 19","mend":""},)"
            R"({"name":"MPI","status":"absent","detail":"no mpirun","mend":"install openmpi-bin"}])");
  EXPECT_TRUE(healthy(findings));
}

}  // namespace
}  // namespace hetsynth
