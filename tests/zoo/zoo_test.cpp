// Every model of examples/: its published size, and at its tiny size the whole way from the file to equal losses on one
// rank and on three uneven ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>

#include "synth/baselines/baselines.h"
#include "synth/planner/synthesize.h"
#include "tests/support/nested_plan.h"
#include "tests/support/test_name.h"
#include "tests/support/zoo/walk.h"
#include "verify/verify.h"

namespace hetsynth::testing {
namespace {

class Zoo : public ::testing::TestWithParam<ListedModel> {};

std::string name_of(const ::testing::TestParamInfo<ListedModel>& info) { return test_name(info.param.name); }

class PublishedSize : public Zoo {};
INSTANTIATE_TEST_SUITE_P(Models, PublishedSize, ::testing::ValuesIn(listed_models()), name_of);

TEST_P(PublishedSize, HasThePublishedNumberOfParameters) {
  const ListedModel& model = GetParam();
  const TracedModel traced = trace_model(model, model.published);
  EXPECT_EQ(traced.code->warnings(), "");
  EXPECT_GE(traced.program.loss, 0);
  if (!model.count_text.empty()) {
    EXPECT_NEAR(double(model.counted_parameters(traced.program)), double(model.count), double(model.count_rounding));
  }
}

class TinySize : public Zoo {};
INSTANTIATE_TEST_SUITE_P(Models, TinySize, ::testing::ValuesIn(first_of_each_file()), name_of);

TEST_P(TinySize, TrainsAlikeOnOneRankAndOnThreeUnevenOnes) {
  constexpr int64_t steps = 20;
  const ListedModel& model = GetParam();
  const TracedModel traced = trace_model(model, model.tiny);
  const Cluster three = three_uneven_devices();
  const Plan plan = synthesize(traced.program, three, {.time_limit_seconds = 5, .progress = {}});
  ASSERT_EQ(plan.program.mesh.device_count(), 3);
  const Verification proof = verify(traced.program, plan.program);
  EXPECT_EQ(proof.verdict, Verdict::proved) << proof.summary;

  const TwoRuns runs = train_on_both(traced.program, plan, three, steps);
  EXPECT_LT(runs.largest_difference(), loss_bound) << ::testing::PrintToString(runs.alone) << "\n"
                                                   << ::testing::PrintToString(runs.together);
  RecordProperty("difference", std::to_string(runs.largest_difference()));
  EXPECT_THAT(runs.alone, ::testing::Each(::testing::Truly([](double loss) { return std::isfinite(loss); })));
}

/// Every model's batch over two axes of two devices, each half of it divided again.
TEST_P(TinySize, TrainsAlikeWhereTwoAxesCutTheBatch) {
  constexpr int64_t steps = 5;
  const ListedModel& model = GetParam();
  const TracedModel traced = trace_model(model, model.tiny);
  Cluster four = three_uneven_devices();
  four.devices.push_back(four.devices[1]);
  four.devices.back().name = "fourth";
  Plan plan = data_parallel_plan(traced.program, four, RatioRule::proportional);
  plan.program = test::nested_plan(plan.program, 2);
  const Verification proof = verify(traced.program, plan.program);
  EXPECT_EQ(proof.verdict, Verdict::proved) << proof.summary;
  const TwoRuns runs = train_on_both(traced.program, plan, four, steps);
  EXPECT_LT(runs.largest_difference(), loss_bound) << ::testing::PrintToString(runs.alone) << "\n"
                                                   << ::testing::PrintToString(runs.together);
}

TEST(ModelList, ReadsCountsAndSettingsFromComments) {
  const std::string file = (std::filesystem::temp_directory_path() / "hetsynth-zoo-list.cpp").string();
  const auto models = [&](const std::string& comments) {
    std::ofstream(file) << comments << "#include <cmath>\n// Model: not at the top\n";
    return models_of(file);
  };
  const std::vector<ListedModel> two = models(
      "// Networks.\n// Model: Exact | 1234 parameters without head. | size=base depth=3\n// Tiny: width=4\n"
      "// Model: Rounded | 46.7B parameters\n");
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].name, "Exact");
  EXPECT_EQ(two[0].count, 1234);
  EXPECT_EQ(two[0].count_rounding, 0);
  EXPECT_EQ(two[0].without, "head.");
  EXPECT_EQ(two[0].published, (Settings{{"size", "base"}, {"depth", "3"}}));
  EXPECT_EQ(two[0].tiny, (Settings{{"width", "4"}}));
  EXPECT_TRUE(two[0].first_of_file);
  EXPECT_EQ(two[1].count, 46'700'000'000);
  EXPECT_EQ(two[1].count_rounding, 100'000'000);
  EXPECT_FALSE(two[1].first_of_file);
  EXPECT_EQ(models("// Model: Small\n")[0].tiny, (Settings{{"size", "tiny"}}));
  EXPECT_EQ(models("// No line of ours.\n")[0].name, "hetsynth-zoo-list");
  for (const char* wrong : {"// Model: A | 12 apples\n", "// Model: \n", "// Model: A | 3X parameters\n",
                            "// Model: A | 3 parameters without\n", "// Tiny: small\n"}) {
    try {
      models(wrong);
      ADD_FAILURE() << "accepted: " << wrong;
    } catch (const std::runtime_error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("hetsynth-zoo-list.cpp:1: "));
    }
  }
  std::filesystem::remove(file);
}

TEST(ModelList, NamesThatNoModelHasAreTold) {
  const std::vector<ListedModel> some = listed_models({"mlp", "BERT-Base"});
  ASSERT_EQ(some.size(), 2u);
  EXPECT_EQ(some[0].name, "BERT-Base");
  EXPECT_EQ(listed_models(std::set<std::string>()).size(), listed_models().size());
  try {
    listed_models({"mlp", "Swin-Hug-48"});
    FAIL() << "no model is named so";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "no model is named \"Swin-Hug-48\"; did you mean \"Swin-Huge-48\"?");
  }
}

TEST(ModelList, HoldsTheExamplesAndNoNameTwice) {
  std::set<std::string> names;
  for (const ListedModel& model : listed_models()) EXPECT_TRUE(names.insert(model.name).second) << model.name;
  EXPECT_GE(first_of_each_file().size(), 10u);
}

}  // namespace
}  // namespace hetsynth::testing
