// What the commands say of plans whose devices hold parts of their neighbours'.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/command.h"

namespace hetsynth::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// A plan of two devices that hold 8 of the 16 columns of w1 each.
class Halo : public ::testing::Test {
 protected:
  void SetUp() override {
    const Outcome outcome = place.run("plan model.cpp --set batch=3000 --cluster c.toml -o plan.json");
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    plan = place.read("plan.json");
  }
  void replace(const std::string& from, const std::string& to) {
    const size_t at = plan.find(from);
    ASSERT_NE(at, std::string::npos) << from << "\n" << plan;
    plan.replace(at, from.size(), to);
    place.write("halo.json", plan);
  }
  Workplace place;
  std::string plan;
};

TEST_F(Halo, OfALeafIsADifferenceBetweenPlans) {
  replace(R"x("node": "w1", "placement": {"dev": "sharded(1, w1.1)"})x",
          R"x("node": "w1", "placement": {"dev": "overlapping(1, 2, 1, w1.1)"})x");
  const Outcome outcome = place.run("diff model.cpp plan.json halo.json");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("parameter w1 is kept\n  - dimension 1 cut 8/8\n"),
                                 HasSubstr("  + dimension 1 cut 8/8 with 2 before and 1 after\n")));
}

/// Of 6 rows the first device gets one number more and the second two.
TEST_F(Halo, ExchangesAreReportedWithWhatTheyMoveAndCarriedOut) {
  replace(
      "\"instructions\": [\n",
      "\"instructions\": [\n"
      R"x({"op": "halo_exchange", "result": "wide", "axis": "dev", "dim": 1, "table": "w1.1", "before": 2, "after": 1,
               "from": ["w1@dev:S1"], "placement": {"dev": "overlapping(1, 2, 1, w1.1)"}},)x");
  const Outcome run = place.run("run model.cpp --plan halo.json --cluster c.toml --steps 2 --unverified");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("     1 halo_exchange          72 B a step\n"));
  EXPECT_THAT(run.out + run.err, HasSubstr("step 1/1"));
  const Outcome other = place.run("diff model.cpp plan.json halo.json");
  EXPECT_THAT(other.out, HasSubstr("w1 moves by\n  - not at all\n  + halo_exchange\n"));
}

}  // namespace
}  // namespace hetsynth::testing
