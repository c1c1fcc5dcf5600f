// plan --compare: a row per system in text, the same figures in JSON, and none faster than the plan.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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

}  // namespace
}  // namespace hetsynth::testing
