// plan --compare: a row per system in text, the same figures in JSON, and none faster than the plan.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "hetsynth/build_paths.h"
#include "tests/cli/command.h"

namespace hetsynth::testing {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

TEST(Compare, ListsEverySystemWithStepRatioAndMemory) {
  const Workplace place;
  const Outcome text = place.run("plan model.cpp --set batch=3000 --cluster c.toml --compare");
  ASSERT_EQ(text.code, 0) << text.err;
  for (const char* name :
       {"this plan", "even data parallel", "speed-proportional data parallel", "ZeRO-1", "ZeRO-2", "ZeRO-3", "Megatron",
        "FlexFlow", "Galvatron (by layer)", "HAP's rules", "GPipe (equal stages)", "1F1B (equal stages)",
        "Galvatron (stages)", "x ours", "turns", "stages", "GiB"})
    EXPECT_THAT(text.out, HasSubstr(name));
  const Outcome json = place.run("plan model.cpp --set batch=3000 --cluster c.toml --compare --json");
  ASSERT_EQ(json.code, 0) << json.err;
  const Json report = Json::parse(json.out);
  ASSERT_EQ(report.at("peers").size(), 12u);
  for (const Json& peer : report.at("peers")) {
    ASSERT_TRUE(peer.at("feasible")) << peer;
    EXPECT_GE(double(peer.at("ratio")), 1 - 1e-9) << peer;
    EXPECT_NEAR(double(peer.at("step_seconds")) / double(report.at("step_seconds")), double(peer.at("ratio")), 1e-9);
    EXPECT_LE(int64_t(peer.at("memory_bytes")), int64_t(peer.at("memory_limit_bytes")));
    const bool equal_stages = std::string(peer.at("name")).ends_with("(equal stages)");
    EXPECT_EQ(int64_t(peer.at("stages")), equal_stages ? 2 : int64_t(peer.at("stages"))) << peer;
    EXPECT_GE(int64_t(peer.at("turns")), equal_stages ? 2 : 1) << peer;
  }
}

int count(const std::string& text, const std::string& part) {
  int out = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++out;
  return out;
}

/// Or they are told why not; and what is compared is not listed beside the comparison.
TEST(Compare, EverySystemTakesTheTurnsThatAreAskedFor) {
  const Workplace place;
  for (const int turns : {1, 4}) {
    const std::string plan =
        "plan model.cpp --set batch=3000 --cluster c.toml --compare --turns " + std::to_string(turns);
    const Outcome json = place.run(plan + " --json");
    ASSERT_EQ(json.code, 0) << json.err;
    const Json report = Json::parse(json.out);
    ASSERT_EQ(report.at("peers").size(), 12u);
    for (const Json& peer : report.at("peers")) {
      const bool equal_stages = std::string(peer.at("name")).ends_with("(equal stages)");
      EXPECT_EQ(bool(peer.at("feasible")), turns > 1 || !equal_stages) << peer;
      if (peer.at("feasible"))
        EXPECT_EQ(int(peer.at("turns")), turns) << peer;
      else
        EXPECT_THAT(std::string(peer.at("why_not")), HasSubstr("its stages need several turns, and one is asked for"));
    }
    const Outcome text = place.run(plan);
    EXPECT_EQ(count(text.out, "even data parallel"), 1) << text.out;
    EXPECT_EQ(count(text.out, "speed-proportional data parallel"), 1) << text.out;
  }
}

/// Two stages' updates at one time, and sums of gradients beside computing: it was 3.7 % behind GPipe.
TEST(Compare, APlanOfStagesIsNotBehindEqualStages) {
  const Workplace place;
  const std::string folder = HETSYNTH_SOURCE_DIR;
  const Outcome json =
      place.run("plan " + folder + "/examples/gpt.cpp --set layers=2 --set width=256 --set batch=16 --cluster " +
                folder + "/bench/clusters/eight-titan.toml --compare --json");
  ASSERT_EQ(json.code, 0) << json.err;
  for (const Json& peer : Json::parse(json.out).at("peers"))
    if (peer.at("feasible")) {
      EXPECT_GE(double(peer.at("ratio")), 0.999) << peer;
    }
}

TEST(Compare, CtrlCEndsItAndWhatWasComparedIsTold) {
  const Workplace place;
  const std::string model = "compared" + std::to_string(::getpid()) + ".cpp";
  place.write(model, small_model);
  Outcome ran;
  // The plan is written before other systems are planned.
  std::thread job(
      [&] { ran = place.run("plan " + model + " --set batch=720720 --cluster c.toml -o plan.json --compare --json"); });
  for (int tries = 0; tries < 6000 && !place.exists("plan.json"); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(std::system(("kill -INT $(pgrep -f '^[^ ]*hetsynth [p]lan " + model + "')").c_str()), 0);
  job.join();
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("the comparison was interrupted"));
  const Json report = Json::parse(ran.out);
  ASSERT_EQ(report.at("peers").size(), 12u);
  const Json& last = report.at("peers").back();
  EXPECT_TRUE(last.at("feasible").is_null()) << last;
  EXPECT_THAT(std::string(last.at("why_not")), HasSubstr("interrupted"));
}

}  // namespace
}  // namespace hetsynth::testing
