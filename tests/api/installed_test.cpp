// Programs that find an installed hetsynth, wherever its tree was moved to: the two of examples/embed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "hetsynth/build_paths.h"
#include "tests/cli/command.h"

namespace hetsynth::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class Installed : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(shell("cmake --install '" HETSYNTH_BINARY_DIR "' --prefix first"), 0) << place.read("err");
    std::filesystem::rename(place.folder() / "first", place.folder() / "moved");
  }
  /// The exit code; what it wrote is in `out` and `err`.
  int shell(const std::string& command) const {
    const std::string all = "cd '" + place.folder().string() +
                            "' && HETSYNTH_CACHE_DIR='" HETSYNTH_BINARY_DIR "/test-cache' sh -c '" + command +
                            "' >out 2>err </dev/null";
    const int status = std::system(all.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  }
  void build(const std::string& example) const {
    const std::string configure = "cmake -S moved/share/hetsynth/examples/embed/" + example + " -B " + example +
                                  " -DCMAKE_PREFIX_PATH=\"$PWD/moved\"";
    ASSERT_EQ(shell(configure + " && cmake --build " + example), 0) << place.read("out") << place.read("err");
  }
  std::vector<nlohmann::json> answers(const std::string& requests) const {
    place.write("requests", requests);
    EXPECT_EQ(shell("plan_service/plan_service <requests"), 0) << place.read("err");
    std::vector<nlohmann::json> out;
    std::istringstream lines(place.read("out"));
    for (std::string line; std::getline(lines, line);) out.push_back(nlohmann::json::parse(line));
    return out;
  }
  const Workplace place;
};

TEST_F(Installed, AProgramTrainsAFunctionOfItsOwn) {
  build("train");
  ASSERT_EQ(shell("train/train_spirals 200 c.toml point"), 0) << place.read("err");
  const std::string out = place.read("out");
  int right = 0;
  ASSERT_EQ(std::sscanf(out.c_str() + out.find("right: "), "right: %d of 192", &right), 1) << out;
  EXPECT_GT(right, 150) << out;
  const Outcome checkpoint = place.run("checkpoint point");
  EXPECT_THAT(checkpoint.out, AllOf(HasSubstr("200"), HasSubstr("w0")));
}

TEST_F(Installed, AServicePlans) {
  build("plan_service");
  const std::vector<nlohmann::json> plans =
      answers("model.cpp c.toml batch=24\nmodel.cpp c.toml\nmodel.cpp nowhere.toml\nmodel.cpp\n");
  ASSERT_THAT(plans, SizeIs(4));
  EXPECT_GT(plans[0]["report"]["step_seconds"], 0);
  EXPECT_NE(plans[0]["plan"], plans[1]["plan"]);
  EXPECT_EQ(plans[2]["code"], 3);
  EXPECT_THAT(std::string(plans[2]["error"]), HasSubstr("nowhere.toml"));
  EXPECT_THAT(std::string(plans[3]["error"]), HasSubstr("a request is: MODEL CLUSTER"));
  place.write("plan.json", plans[1]["plan"].dump());
  EXPECT_EQ(place.run("verify model.cpp plan.json").code, 0);

  // Its models are compiled with the headers that were moved with it.
  std::ofstream(place.folder() / "moved/lib/hetsynth/include/hetsynth/model.h", std::ios::app)
      << "\n#error these are they\n";
  EXPECT_THAT(std::string(answers("model.cpp c.toml\n").at(0)["error"]), HasSubstr("these are they"));
}

TEST_F(Installed, AProgramOfAnotherVersionIsToldSo) {
  place.write("moved/lib/hetsynth/include/hetsynth/api_version.h",
              "#pragma once\n#define HETSYNTH_API_VERSION \"0.0.9\"\n");
  build("plan_service");
  EXPECT_THAT(std::string(answers("model.cpp c.toml\n").at(0)["error"]),
              AllOf(HasSubstr("built with the headers of another version of hetsynth"), HasSubstr("0.0.9")));
}

}  // namespace
}  // namespace hetsynth::testing
