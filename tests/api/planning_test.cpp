// Models, clusters and plans through the interface: what is told of them, and what is refused, in the command's words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "hetsynth/api.h"
#include "hetsynth/hetsynth.h"
#include "tests/api/fixture.h"

namespace hetsynth::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using Embedded = ApiTest;

TEST_F(Embedded, PlanSaysWhatTheCommandSays) {
  const api::Plan plan = this->plan();
  const Outcome command = place.run("plan model.cpp --cluster c.toml --json -o plan.json");
  ASSERT_EQ(command.code, 0) << command.err;
  const auto own = nlohmann::json::parse(plan.json()), told = nlohmann::json::parse(command.out);
  EXPECT_EQ(own["step_seconds"], told["step_seconds"]);
  EXPECT_EQ(own["devices"], told["devices"]);
  EXPECT_GT(plan.step_seconds(), 0);
  EXPECT_LE(plan.bound_seconds(), plan.step_seconds() * 1.001);
  for (const api::DeviceShare& device : plan.devices()) EXPECT_GT(device.memory_bytes, 0);
  EXPECT_EQ(plan.prove().verdict, api::Proof::Verdict::proved);
  EXPECT_THAT(plan.prove().text, HasSubstr("for all sizes, boundaries and device counts"));
}

TEST_F(Embedded, PlansAreSavedAndLoaded) {
  const api::Plan plan = api::plan(model({{"batch", "24"}}), cluster());
  plan.save(path("plan.json"));
  EXPECT_EQ(place.read("plan.json"), plan.document());
  EXPECT_EQ(place.run("verify model.cpp plan.json").code, 0);
  // The plan remembers the batch it was made for.
  const api::Plan loaded = api::Plan::load(path("plan.json"), model(), cluster());
  EXPECT_EQ(loaded.document(), plan.document());
  EXPECT_THAT(error_of([&] { api::Plan::load(path("nowhere.json"), model(), cluster()); }),
              AllOf(StartsWith("[3] "), HasSubstr("nowhere.json")));
}

TEST_F(Embedded, AWrongPlanIsRefutedAndNotRun) {
  // The new contents of w1 become the old ones: well-formed, and a model that does not learn.
  const std::string good = plan().document();
  const size_t node = good.find("\", \"node\": \"w1\""), value = good.rfind('"', node - 1) + 1;
  const size_t target = good.find("{\"target\": \"w1\""), end = good.find('}', target) + 1;
  ASSERT_NE(target, std::string::npos) << good;
  const std::string old_value = good.substr(value, node - value);
  place.write("plan.json",
              good.substr(0, target) + "{\"target\": \"w1\", \"value\": \"" + old_value + "\"}" + good.substr(end));
  const api::Plan wrong = api::Plan::load(path("plan.json"), model(), cluster());
  EXPECT_EQ(wrong.prove().verdict, api::Proof::Verdict::refuted);
  EXPECT_THAT(error_of([&] { api::Training training(wrong); }),
              AllOf(StartsWith("[5] "), HasSubstr("this plan is not proved to compute the model, so it is not run")));
}

TEST_F(Embedded, MistakesHaveTheWordsOfTheCommand) {
  EXPECT_THAT(error_of([&] { api::Model::from_file(path("none.cpp")); }),
              AllOf(StartsWith("[3] "), HasSubstr("none.cpp")));
  EXPECT_THAT(error_of([&] { model({{"bach", "2"}}); }), AllOf(StartsWith("[2] "), HasSubstr("bach")));
  EXPECT_THAT(error_of([&] { api::Cluster::parse("[[host]]\nname = 3\n", "mine"); }),
              AllOf(StartsWith("[3] mine:2:"), HasSubstr("name")));
  place.write("tight.toml", everywhere(place.read("c.toml"), "1 GiB", "64 KiB"));
  const Outcome command = place.run("plan model.cpp --cluster tight.toml --batch 60000");
  ASSERT_EQ(command.code, 4) << command.err;
  const auto plan_tightly = [&] {
    api::plan(model({{"batch", "60000"}}), api::Cluster::from_file(path("tight.toml")));
  };
  EXPECT_EQ(everywhere(error_of(plan_tightly), place.folder().string() + "/", "") + "\n", "[4] " + command.err);
}

TEST_F(Embedded, AFunctionThatIsWrongIsShownInItsOwnFile) {
  const auto wrong = [] {
    const Tensor x = input("x", {4, 6}, f32);
    minimize(mean(matmul(x, parameter("w", {5, 2}, zeros()))), SGD{});
  };
  EXPECT_THAT(error_of([&] { api::Model::from_function(wrong); }),
              AllOf(HasSubstr("planning_test.cpp:"), HasSubstr("[matmul] inner dimensions disagree: [4,6] x [5,2]")));
  EXPECT_THROW(api::Model::from_function([] { throw std::runtime_error("of my own"); }), std::runtime_error);
  // Nothing is left of it: the next one is traced as usual.
  EXPECT_EQ(api::Model::from_function([] { minimize(mean(parameter("w", {5}, zeros())), SGD{}); }).parameters().size(),
            1u);
}

TEST_F(Embedded, ASearchIsEndedByItsCaller) {
  int calls = 0;
  const api::Plan plan = api::plan(model(), cluster(), {.progress = [&](const api::PlanProgress&) {
                                     ++calls;
                                     return false;
                                   }});
  EXPECT_GT(calls, 0);
  EXPECT_EQ(plan.prove().verdict, api::Proof::Verdict::proved);
}

TEST_F(Embedded, SeveralThreadsPlanAndTrainAtOnce) {
  const std::string expected = api::plan(model(), cluster()).document();
  std::vector<std::string> documents(4);
  std::vector<double> losses(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < documents.size(); ++i)
    threads.emplace_back([&, i] {
      const api::Plan plan = api::plan(model(), cluster());
      documents[i] = plan.document();
      api::Training training(plan, {.seed = 3});
      for (int step = 0; step < 3; ++step) losses[i] = training.step().loss;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(documents, ElementsAre(expected, expected, expected, expected));
  EXPECT_THAT(losses, ::testing::Each(losses.front()));
}

TEST(Version, HeadersOfAnotherOneAreRefused) {
  EXPECT_EQ(error_of([] { api::require_version(HETSYNTH_API_VERSION); }), "no error");
  EXPECT_THAT(error_of([] { api::require_version("0.0.9"); }),
              AllOf(HasSubstr("[version] this program was built with the headers of another version of hetsynth"),
                    HasSubstr("found:    headers of hetsynth 0.0.9"), HasSubstr("to mend:  build the program again")));
}

}  // namespace
}  // namespace hetsynth::testing
