// What a plan is held against: other meshes and devices, why devices are left out, and what decides.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/cli/command.h"

namespace hetsynth::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using Json = nlohmann::json;

/// Two hosts of two devices, with a link between that decides what pays.
std::string four_devices(const std::string& between, const std::string& latency) {
  return "[between]\nbandwidth = \"" + between + "\"\nlatency = \"" + latency + "\"\n" +
         R"([[host]]
name = "h"
count = 2
inside = { bandwidth = "10 GB/s", latency = "1 us" }
[[host.device]]
name = "core"
kind = "cpu"
count = 2
memory = "1 GiB"
declared = { matmul = "10 GFLOP/s", memory_bandwidth = "10 GB/s" }
)";
}

class Considered : public ::testing::Test {
 protected:
  Json report(const std::string& arguments) const {
    const Outcome outcome = place.run("plan model.cpp " + arguments + " --json -o plan.json");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return Json::parse(outcome.out);
  }
  /// Trials that came out so.
  static int count(const Json& report, const std::string& outcome) {
    return int(std::ranges::count_if(report["considered"], [&](const Json& t) { return t["outcome"] == outcome; }));
  }
  Workplace place;
};

TEST_F(Considered, ADeviceThatGetsNothingHasAReasonInNumbers) {
  std::string cluster = place.read("c.toml");
  place.write("c.toml", cluster.replace(cluster.rfind("10 GB/s"), 2, "2"));  // the slow device's memory
  const Outcome plan = place.run("plan model.cpp --cluster c.toml -o plan.json");
  ASSERT_EQ(plan.code, 0) << plan.err;
  EXPECT_THAT(plan.out, AllOf(HasSubstr("left out, since they do not pay: slow"),
                              HasSubstr("with all 2 devices a step takes "), HasSubstr("times as long: "),
                              HasSubstr("what was considered, by mesh and devices"), HasSubstr("  1 on fast: step ")));
  const Json json = report("--cluster c.toml");
  EXPECT_THAT(std::string(json["left_out_because"]), HasSubstr("with all 2 devices a step takes "));
  ASSERT_EQ(count(json, "taken"), 1);
  double with = 0, without = 0;
  for (const Json& trial : json["considered"]) {
    if (trial["outcome"] == "taken") {
      without = trial["step_seconds"];
      EXPECT_EQ(trial["device_count"], 1);
    } else if (trial["device_count"] == 2) {
      with = trial["step_seconds"];
    }
  }
  EXPECT_EQ(without, double(json["step_seconds"]));
  EXPECT_GT(with, without);
  // The plan remembers, so explain names the runner-up.
  EXPECT_THAT(place.run("explain model.cpp plan.json --cluster c.toml").out,
              AllOf(HasSubstr("with all 2 devices a step takes "), HasSubstr("mesh 2 over 2 devices")));
  const Json explained = Json::parse(place.run("explain model.cpp plan.json --cluster c.toml --json").out);
  EXPECT_EQ(explained["left_out_because"], json["left_out_because"]);
  EXPECT_EQ(explained["considered"], json["considered"]);
}

TEST_F(Considered, AHostThatGetsNothingHasOneTooOnTwoAxes) {
  place.write("far.toml", four_devices("1 MB/s", "10 ms"));
  const Json json = report("--set batch=30000 --cluster far.toml --mesh-axes 2");
  EXPECT_EQ(json["left_out"], Json({"h[1].core[0]", "h[1].core[1]"}));
  EXPECT_THAT(std::string(json["left_out_because"]), HasSubstr("with all 4 devices "));
}

TEST_F(Considered, EveryMeshHasAVerdict) {
  place.write("near.toml", four_devices("10 GB/s", "50 us"));
  for (const std::string axes : {"", "--mesh-axes 2", "--mesh-axes auto"}) {
    const Json json = report("--set batch=30000 --cluster near.toml " + axes);
    EXPECT_EQ(count(json, "taken"), 1);
    bool flat = false, two = false;
    for (const Json& trial : json["considered"]) {
      flat = flat || trial["mesh"] == Json({4});
      two = two || trial["mesh"] == Json({2, 2});
      EXPECT_NE(trial["outcome"], "");
      if (!trial.contains("step_seconds")) continue;
      const double added = double(trial["compute_seconds"]) + double(trial["communication_seconds"]);
      EXPECT_LE(double(trial["bound_seconds"]), added);
      EXPECT_LE(double(trial["step_seconds"]), added * (1 + 1e-9));
      EXPECT_GE(double(trial["step_seconds"]), double(json["step_seconds"]));
    }
    EXPECT_TRUE(flat && two) << json["considered"];
  }
  const Json one = report("--set batch=30000 --cluster near.toml --mesh-axes 1");
  for (const Json& trial : one["considered"]) EXPECT_EQ(trial["mesh"].size(), 1u);
}

TEST_F(Considered, ThreeAxesArePlannedProvedAndTrained) {
  std::string cluster = four_devices("1 GB/s", "10 us");
  place.write("eight.toml", cluster.replace(cluster.find("count = 2"), 9, "count = 4"));
  const Json json = report("--set batch=30000 --cluster eight.toml --mesh-axes 3");
  bool three = false;
  for (const Json& trial : json["considered"]) three = three || trial["mesh"] == Json({2, 2, 2});
  EXPECT_TRUE(three) << json["considered"];
  const Outcome run = place.run("run model.cpp --cluster eight.toml --mesh 2x2x2 --steps 2");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out + run.err,
              AllOf(HasSubstr("proved: "), HasSubstr("the generated programs of 8 ranks do what the plan says"),
                    HasSubstr("2 steps in ")));
}

TEST_F(Considered, TheStepAsItUnfoldsDecides) {
  place.write("near.toml", four_devices("1 GB/s", "50 us"));
  const Json json = report("--set batch=30000 --cluster near.toml --mesh-axes 2");
  for (const Json& trial : json["considered"])
    EXPECT_GE(trial.value("step_seconds", 1e9), double(json["step_seconds"])) << trial;
  EXPECT_LE(double(json["step_seconds"]), double(json["objective_seconds"]) * (1 + 1e-9));
  EXPECT_LE(double(json["floor_seconds"]), double(json["step_seconds"]));
}

TEST_F(Considered, WordsThatAreNoOptionsAreRefused) {
  EXPECT_THAT(place.run("plan model.cpp --cluster c.toml --effort much"),
              Fails(2, HasSubstr("--effort: expected quick, normal or full, found much")));
  EXPECT_THAT(
      place.run("plan model.cpp --cluster c.toml --mesh-axes many"),
      Fails(2, AllOf(HasSubstr("--mesh-axes: expected a number from 1 to "), HasSubstr(", or auto, found many"))));
}

TEST_F(Considered, RunPlansWithTheSameOptions) {
  const Outcome run =
      place.run("run model.cpp --set batch=3000 --cluster c.toml --ratio 1,2 --forbid all_to_all --steps 1 --sample 0");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(ContainsRegex("fast +3[0-9]\\.[0-9]%"), ContainsRegex("slow +6[0-9]\\.[0-9]%")));
  ASSERT_EQ(place.run("plan model.cpp --cluster c.toml -o plan.json").code, 0);
  EXPECT_THAT(place.run("run model.cpp --cluster c.toml --plan plan.json --ratio 1,1"),
              Fails(2, HasSubstr("--plan excludes --ratio")));
}

}  // namespace
}  // namespace hetsynth::testing
