// explain and diff: what they say of small plans, that JSON and text agree with the plan, and that edits show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/command.h"

namespace hetsynth::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

class Plans : public ::testing::Test {
 protected:
  void SetUp() override { plan("c.toml", "plan.json"); }

  void plan(const std::string& cluster, const std::string& file) const {
    const Outcome outcome = place.run("plan model.cpp --set batch=3000 --cluster " + cluster + " -o " + file);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  std::string answer(const std::string& arguments) const {
    const Outcome outcome = place.run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  }
  Workplace place;
};

using Explain = Plans;

TEST_F(Explain, NamesPhasesOperatorsCollectivesAndWhatWasNotTaken) {
  const std::string text = answer("explain model.cpp plan.json --cluster c.toml");
  EXPECT_THAT(text, AllOf(HasSubstr("forward"), HasSubstr("backward"), HasSubstr("update"), HasSubstr("model.cpp:8")));
  EXPECT_THAT(text, AllOf(HasSubstr("collectives, the dearest first"), HasSubstr("even data parallel"),
                          HasSubstr("fastest device alone"), HasSubstr("a step: computing")));
  EXPECT_THAT(text, AllOf(HasSubstr("the step as it unfolds: "), HasSubstr("memory where each device needs most"),
                          HasSubstr("saved activations"), HasSubstr("the runner-up first")));
  EXPECT_THAT(text, Not(HasSubstr("edited")));
}

TEST_F(Explain, JsonAddsUpToThePredictedStep) {
  const Json json = Json::parse(answer("explain model.cpp plan.json --cluster c.toml --json"));
  const Json plan = Json::parse(place.read("plan.json"));
  const double predicted = plan["prediction"]["step_seconds"];
  EXPECT_NEAR(json["step_seconds"], predicted, 1e-9 * predicted + 1e-10);
  double sum = 0;
  for (const Json& instruction : json["instructions"]) {
    sum += double(instruction["seconds"]);
    EXPECT_EQ(instruction["device_seconds"].size(), plan["devices"].size());
  }
  EXPECT_NEAR(sum, double(json["computing_seconds"]) + double(json["communicating_seconds"]), 1e-12);
  EXPECT_EQ(json["instructions"].size(), plan["decisions"]["instructions"].size());
  EXPECT_LE(predicted, sum * (1 + 1e-9) + 1e-9);
  ASSERT_EQ(json["devices"].size(), plan["devices"].size());
  for (size_t d = 0; d < json["devices"].size(); ++d) {
    int64_t bytes = 0;
    for (const auto& [use, part] : json["devices"][d]["memory_bytes"].items()) bytes += int64_t(part);
    EXPECT_EQ(bytes, int64_t(plan["prediction"]["devices"][d]["memory_bytes"]));
  }
  for (const Json& other : json["alternatives"]) EXPECT_GE(double(other["step_seconds"]), predicted * (1 - 1e-9));
}

/// Hosts of two and three cores behind a slow link: planned, proved, explained, generated and run.
TEST_F(Explain, SaysWhatARingWouldTakeInPlaceOfAHierarchicalCollective) {
  std::string cluster = "name = \"two\"\n[between]\nbandwidth = \"10 Gb/s\"\nlatency = \"200 us\"\n";
  for (const char* count : {"2", "3"})
    cluster +=
        "[[host]]\ninside = { bandwidth = \"5 GB/s\", latency = \"5 us\" }\n[[host.device]]\nkind = \"cpu\"\n"
        "memory = \"1 GiB\"\ncount = " +
        std::string(count) + "\ndeclared = { matmul = \"60 MFLOP/s\", memory_bandwidth = \"10 MB/s\" }\n";
  place.write("two.toml", cluster);
  plan("two.toml", "two.json");
  EXPECT_THAT(place.read("two.json"),
              AllOf(HasSubstr("\"hosts\": [0, 0, 1, 1, 1]"), HasSubstr("\"realisation\": \"hierarchical\"")));
  const std::string text = answer("explain model.cpp two.json --cluster two.toml");
  EXPECT_THAT(text, AllOf(HasSubstr("all_reduce hierarchical"),
                          HasSubstr("within hosts first, then between them: one ring over all devices would take ")));
  const Json json = Json::parse(answer("explain model.cpp two.json --cluster two.toml --json"));
  int hierarchical = 0;
  for (const Json& i : json["instructions"])
    if (i.contains("ring_seconds")) {
      EXPECT_EQ(i["realisation"], "hierarchical");
      EXPECT_GT(double(i["ring_seconds"]), double(i["seconds"]));
      ++hierarchical;
    }
  EXPECT_GT(hierarchical, 0);
  answer("verify model.cpp two.json --source");
  EXPECT_THAT(answer("run model.cpp --plan two.json --cluster two.toml --steps 3"), HasSubstr("loss"));
}

TEST_F(Explain, DrawsATimelineWithARowPerDevice) {
  const std::string text = answer("explain model.cpp plan.json --cluster c.toml --html page.html");
  EXPECT_THAT(text, HasSubstr("timeline written to page.html"));
  const std::string page = place.read("page.html");
  EXPECT_THAT(page, AllOf(HasSubstr("<svg"), HasSubstr(">fast</b>"), HasSubstr(">slow</b>"),
                          HasSubstr("class=\"bar forward\""), HasSubstr("class=\"bar communication\""),
                          HasSubstr("</html>"), HasSubstr("Computing is above, communication below")));
  // The page is as long as the step that is predicted.
  const std::string words = "the step as it unfolds: ";
  const size_t at = text.find(words);
  ASSERT_NE(at, std::string::npos);
  const std::string step = text.substr(at + words.size(), text.find(" (", at) - at - words.size());
  EXPECT_THAT(page, HasSubstr("One training step as predicted: " + step + "."));
  EXPECT_THAT(page, AllOf(HasSubstr("bubble "), Not(HasSubstr("stage 0")), HasSubstr("id=\"in\"")));
}

/// What devices do adds up to the step, in the text as in JSON.
void expect_sums(const Json& json, const std::string& text) {
  const double step = json["step_seconds"];
  double waiting = 0;
  for (const Json& device : json["devices"]) {
    EXPECT_NEAR(double(device["compute_seconds"]) + double(device["communication_seconds"]) -
                    double(device["hidden_seconds"]) + double(device["idle_seconds"]),
                step, 1e-9 * step);
    EXPECT_NEAR(double(device["waiting_share"]), double(device["idle_seconds"]) / step, 1e-9);
    waiting += double(device["idle_seconds"]);
  }
  const Json& limit = json["limit"];
  EXPECT_NEAR(double(limit["computing_seconds"]) + double(limit["made_again_seconds"]) +
                  double(limit["communicating_seconds"]) + double(limit["waiting_seconds"]),
              step, 1e-9 * step);
  EXPECT_NEAR(double(limit["waiting_share_of_all"]), waiting / (step * double(json["devices"].size())), 1e-9);
  EXPECT_THAT(text, AllOf(HasSubstr("what limits it: the " + limit["by"].get<std::string>() + ": of the step of "),
                          HasSubstr("all devices ")));
}

TEST_F(Explain, SaysWhatLimitsAStep) {
  expect_sums(Json::parse(answer("explain model.cpp plan.json --cluster c.toml --json")),
              answer("explain model.cpp plan.json --cluster c.toml"));
}

/// The plan remembers what each number of turns and stages came to.
TEST_F(Explain, SaysWhySoManyTurnsAndStages) {
  ASSERT_EQ(place.run("plan model.cpp --set batch=3000 --cluster c.toml --turns 3 --stages 2 -o p.json").code, 0);
  const std::string words = "explain model.cpp p.json --cluster c.toml";
  const std::string text = answer(words);
  const Json json = Json::parse(answer(words + " --json"));
  expect_sums(json, text);
  ASSERT_EQ(json["turns"].size(), 2u);
  EXPECT_THAT(text, AllOf(HasSubstr("why 3 turns on 2 stages of 1 device: "), HasSubstr("; limited by ")));
  int taken = 0;
  for (const Json& trial : json["turns"]) {
    taken += trial["taken"].get<bool>();
    EXPECT_EQ(trial.contains("limited_by"), !trial["taken"]);
    EXPECT_NEAR(
        double(trial["computing_seconds"]) + double(trial["communicating_seconds"]) + double(trial["waiting_seconds"]),
        double(trial["step_seconds"]), 1e-9);
  }
  EXPECT_EQ(taken, 1);
}

/// Of a pipeline: each instruction once in every turn.
TEST_F(Explain, ShowsTurnsThatOverlap) {
  ASSERT_EQ(place.run("plan model.cpp --set batch=3000 --cluster c.toml --turns 3 --stages 2 -o p.json").code, 0);
  const Json plan = Json::parse(place.read("p.json"));
  const std::string text = answer("explain model.cpp p.json --cluster c.toml --trace t.json --html t.html");
  EXPECT_THAT(text, AllOf(HasSubstr("trace written to t.json"), Not(HasSubstr("edited")), HasSubstr("fast, stage 0"),
                          HasSubstr("what limits it: the slowest stage: ")));
  EXPECT_THAT(place.read("t.html"), AllOf(HasSubstr("stage 0 · bubble "), HasSubstr("stage 1 · bubble "),
                                          HasSubstr("<title>forward of turn 2\n"), HasSubstr(" % of stage 1.")));
  const Json trace = Json::parse(place.read("t.json"));
  std::map<std::string, int> seen;
  double end = 0;
  std::string processes;
  for (const Json& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") processes += event["args"]["name"].get<std::string>() + "\n";
    if (event["ph"] != "X") continue;
    ++seen[event["name"]];
    end = std::max(end, double(event["ts"]) + double(event["dur"]));
  }
  const double step = plan["prediction"]["step_seconds"];
  EXPECT_NEAR(end, 1e6 * step, 1e-3 * 1e6 * step);
  EXPECT_THAT(processes, AllOf(HasSubstr("rank 0 planned: fast, stage 0, bubble "),
                               HasSubstr("rank 1 planned: slow, stage 1, bubble ")));
  const auto of_turn = [&](const char* turn) {
    return std::ranges::count_if(seen, [&](const auto& entry) { return entry.first.ends_with(turn); });
  };
  EXPECT_GT(of_turn("[0]"), 0);
  EXPECT_EQ(of_turn("[1]"), of_turn("[2]"));
  const Json json = Json::parse(answer("explain model.cpp p.json --cluster c.toml --json"));
  EXPECT_NEAR(json["step_seconds"], step, 1e-9 * step + 1e-10);

  Json wrong = plan;
  Json& order = wrong["decisions"]["schedules"][0]["order"];
  std::swap(order[0], order[order.size() - 1]);
  place.write("wrong.json", wrong.dump());
  const Outcome explained = place.run("explain model.cpp wrong.json --cluster c.toml");
  EXPECT_EQ(explained.code, 3);
  EXPECT_THAT(explained.err, HasSubstr("the schedule of loop"));
  const Outcome verified = place.run("verify model.cpp wrong.json");
  EXPECT_EQ(verified.code, 5);
  EXPECT_THAT(verified.out + verified.err, HasSubstr("where turn 0 is next"));
}

TEST_F(Explain, SaysThatAPlanWasEdited) {
  std::string plan = place.read("plan.json");
  const size_t at = plan.find("\"step_seconds\": ");
  ASSERT_NE(at, std::string::npos);
  plan.insert(at + 16, "1");  // ten times as long and more
  place.write("plan.json", plan);
  EXPECT_THAT(answer("explain model.cpp plan.json --cluster c.toml"), HasSubstr("it was edited"));
}

TEST_F(Explain, RefusesAnotherClusterAndAMissingPlan) {
  std::string cluster = place.read("c.toml");
  place.write("d.toml", cluster.replace(cluster.find("30 GFLOP"), 2, "20"));
  EXPECT_EQ(place.run("explain model.cpp plan.json --cluster d.toml").code, 3);
  EXPECT_THAT(place.run("explain model.cpp nothing.json --cluster c.toml"),
              Fails(3, HasSubstr("nothing.json: error:")));
}

using Diff = Plans;

TEST_F(Diff, OfAPlanWithItselfIsEmpty) {
  EXPECT_THAT(answer("diff model.cpp plan.json plan.json"), HasSubstr("the same decisions"));
  EXPECT_TRUE(Json::parse(answer("diff model.cpp plan.json plan.json --json"))["differences"].empty());
}

TEST_F(Diff, NamesSharesThatChanged) {
  std::string cluster = place.read("c.toml");
  place.write("d.toml", cluster.replace(cluster.rfind("10 GB/s"), 2, "2"));  // the slow device's memory
  plan("d.toml", "other.json");
  const Json json = Json::parse(answer("diff model.cpp plan.json other.json --json"));
  ASSERT_FALSE(json["differences"].empty());
  EXPECT_GT(double(json["step_seconds"][1]), double(json["step_seconds"][0]));
  EXPECT_THAT(answer("diff model.cpp plan.json other.json"),
              AllOf(HasSubstr("is computed"), HasSubstr("  - "), HasSubstr("  + "), HasSubstr("predicted step: ")));
}

TEST_F(Diff, RefusesAPlanOfAnotherModel) {
  std::string model = place.read("model.cpp");
  place.write("other.cpp", model.replace(model.find("relu("), 4, "gelu"));
  ASSERT_EQ(place.run("plan other.cpp --set batch=3000 --cluster c.toml -o other.json").code, 0);
  EXPECT_THAT(place.run("diff model.cpp plan.json other.json"),
              Fails(3, HasSubstr("the plan was made for another model")));
}

}  // namespace
}  // namespace hetsynth::testing
