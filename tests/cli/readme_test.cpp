// The model that the README shows is compiled, planned, proved and trained as it stands there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "hetsynth/build_paths.h"
#include "tests/cli/command.h"

namespace hetsynth::testing {
namespace {

/// The first block of the README in this language.
std::string readme_block(const std::string& language) {
  std::stringstream text;
  text << std::ifstream(HETSYNTH_SOURCE_DIR "/README.md").rdbuf();
  const std::string readme = text.str(), fence = "```" + language + "\n";
  const size_t begin = readme.find(fence);
  if (begin == std::string::npos) return "";
  return readme.substr(begin + fence.size(), readme.find("\n```", begin) + 1 - begin - fence.size());
}

TEST(Readme, ModelTrains) {
  const Workplace place;
  place.write("guess.cpp", readme_block("cpp"));
  const Outcome run =
      place.run("run guess.cpp --cluster '" HETSYNTH_SOURCE_DIR "/examples/clusters/unequal.toml' --steps 20");
  EXPECT_EQ(run.code, 0) << run.out << run.err;
  for (const char* part : {"plan for guess.cpp on unequal (", "proved: ", "step 19/19", "sample: "})
    EXPECT_THAT(run.out, ::testing::HasSubstr(part));
}

TEST(Readme, ClusterPlans) {
  const Workplace place;
  place.write("gpus.toml", readme_block("toml"));
  const Outcome plan = place.run("plan model.cpp --cluster gpus.toml -o plan.json");
  EXPECT_EQ(plan.code, 0) << plan.out << plan.err;
  EXPECT_THAT(plan.out, ::testing::HasSubstr("plan for model.cpp on gpus.toml ("));
}

}  // namespace
}  // namespace hetsynth::testing
