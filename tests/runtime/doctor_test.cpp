// What doctor finds and how it says it.
#include "runtime/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include "hetsynth/build_paths.h"

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
