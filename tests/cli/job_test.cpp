// hetsynth run job.toml: options from a file, which every run with a checkpoint leaves beside it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/command.h"

namespace hetsynth::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Job : public ::testing::Test {
 protected:
  Outcome run(const std::string& job, const std::string& more = "") const {
    place.write("job.toml", job);
    return place.run("run job.toml " + more);
  }
  const Workplace place;
};

constexpr const char* job = R"(model = "model.cpp"
cluster = "c.toml"
steps = 7
set = { batch = 6 }
sample = 0
checkpoint = "a.st"
unverified = false
)";

TEST_F(Job, GivesOptionsAndTheCommandLineWins) {
  const Outcome ran = run(job);
  ASSERT_EQ(ran.code, 0) << ran.out << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("7 steps in"));
  EXPECT_THAT(place.run("checkpoint a.st").out, HasSubstr("samples    42 seen"));
  EXPECT_THAT(run(job, "--steps 3 --set batch=4").out, HasSubstr("3 steps in"));
  EXPECT_THAT(place.run("checkpoint a.st").out, HasSubstr("samples    12 seen"));
}

TEST_F(Job, IsWrittenBesideTheCheckpointAndRepeatsTheRun) {
  ASSERT_EQ(place
                .run("run model.cpp --cluster c.toml --sample 0 --steps 5 --set batch=6 --seed 4 --checkpoint a.st "
                     "--ratio 3,1 --forbid all_to_all,recompute")
                .code,
            0);
  const std::string first = place.read("a.st");
  EXPECT_THAT(
      place.read("a.st.job.toml"),
      AllOf(HasSubstr("model = \"model.cpp\"\n"), HasSubstr("set = [\"batch=6\"]\n"), HasSubstr("seed = \"4\"\n"),
            HasSubstr("ratio = [\"3\", \"1\"]\n"), HasSubstr("forbid = [\"all_to_all\", \"recompute\"]\n")));
  ASSERT_EQ(place.run("run a.st.job.toml").code, 0);
  EXPECT_TRUE(place.read("a.st") == first);
  EXPECT_TRUE(place.exists("a.st.previous"));
}

TEST_F(Job, OfTheWrongFormIsRefusedWithItsLine) {
  EXPECT_THAT(run("steps = 3\n"), Fails(3, AllOf(HasSubstr("does not say what to train"), HasSubstr("model = "))));
  EXPECT_THAT(run("model = \"model.cpp\"\nsteos = 3\n"),
              Fails(3, AllOf(HasSubstr("job.toml:2"), HasSubstr("no such option of run"), HasSubstr("steps"))));
  EXPECT_THAT(run("model = \"model.cpp\"\nsteos = 3\nclutser = \"c.toml\"\n"), Fails(3, HasSubstr("job.toml:2")));
  EXPECT_THAT(run("model = \"model.cpp\"\nunverified = 1\n"), Fails(3, HasSubstr("unverified takes no value")));
  EXPECT_THAT(run("model = \"model.cpp\"\nsteps = 2026-11-28\n"), Fails(3, HasSubstr("a text or a number")));
  EXPECT_THAT(run("model = \"model.cpp\"\nsteps = -3\n"), Fails(2, HasSubstr("expected a number from 0, found -3")));
  EXPECT_THAT(run("= 3\n"), Fails(3, HasSubstr("not valid TOML")));
  std::string deep = "a";
  for (int i = 0; i < 100'000; ++i) deep += ".a";
  EXPECT_THAT(run(deep + " = 1\n"), Fails(3, HasSubstr("more than 64 dots in one line")));
  EXPECT_THAT(place.run("plan model.cpp --cluster c.toml --pins job.toml"), Fails(3, HasSubstr("more than 64 dots")));
  EXPECT_THAT(place.run("run absent.toml"), Fails(3, HasSubstr("absent.toml")));
  EXPECT_THAT(place.run("run c.toml"), Fails(3, HasSubstr("a cluster is no job: name the model first")));
}

}  // namespace
}  // namespace hetsynth::testing
