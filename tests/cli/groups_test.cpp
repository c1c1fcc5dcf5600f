// A model with two losses: what is told of them, and that a run which goes on keeps whose turn it is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "hetsynth/build_paths.h"
#include "tests/cli/command.h"

namespace hetsynth::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class GroupsCommand : public ::testing::Test {
 protected:
  Outcome succeed(const std::string& options) const {
    const Outcome outcome =
        place.run("run " HETSYNTH_SOURCE_DIR "/examples/gan.cpp --set size=tiny --sample 0 " + options);
    EXPECT_EQ(outcome.code, 0) << options << "\n" << outcome.out << outcome.err;
    return outcome;
  }
  const Workplace place;
};

TEST_F(GroupsCommand, TellTheLossesOfBoth) {
  const Outcome ran = succeed("--cluster c.toml --steps 3 --log-json log --checkpoint a.st");
  EXPECT_THAT(ran.out, HasSubstr("generator"));
  std::ifstream log(place.folder() / "log");
  std::string line;
  for (int step = 0; step < 3; ++step) {
    ASSERT_TRUE(std::getline(log, line));
    const auto record = nlohmann::json::parse(line);
    EXPECT_NEAR(double(record.at("loss")), 1.39, 0.3) << "2 ln 2 of a discriminator that knows nothing";
    EXPECT_NEAR(double(record.at("metrics").at("generator")), 0.69, 0.3);
  }
  const Outcome evaluated =
      place.run("evaluate " HETSYNTH_SOURCE_DIR "/examples/gan.cpp a.st --set size=tiny --cluster c.toml --batches 2");
  EXPECT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_THAT(evaluated.out, HasSubstr(", generator 0."));
}

/// Bytes of checkpoints: parameters, moments and running statistics. One device, so that sums have one order.
TEST_F(GroupsCommand, GoOnWithTheTurnThatIsDue) {
  for (const std::string turns : {"--set d_steps=0 ", "--set d_steps=2 "}) {
    succeed(turns + "--cluster c.toml --without slow --steps 7 --checkpoint whole.st");
    succeed(turns + "--cluster c.toml --without slow --steps 4 --checkpoint half.st");
    succeed(turns + "--cluster c.toml --without slow --steps 3 --resume half.st --checkpoint rest.st");
    EXPECT_EQ(place.read("rest.st"), place.read("whole.st")) << turns;
  }
}

}  // namespace
}  // namespace hetsynth::testing
