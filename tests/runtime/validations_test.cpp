// What is measured and kept while a model trains: validation losses, the best checkpoint and the last few.
#include "runtime/training/validations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/training/checkpoint.h"
#include "runtime/training/train.h"
#include "tests/runtime/fake_program.h"
#include "tests/runtime/temporary_folder.h"
#include "tests/support/error_of.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace testing;  // NOLINT: fixtures of this folder

/// Training of a program whose validation losses are given.
struct Followed {
  Followed(std::vector<double> given, int64_t steps) : losses(std::move(given)) { options.steps = steps; }

  std::vector<double> losses;
  TrainOptions options;
  std::vector<int64_t> measured_at;  ///< steps done by then
  std::ostringstream out;
  int64_t steps_done = 0;

  TrainReport train() {
    const auto executor = fake_executor(three_uneven_ranks());
    options.out = &out;
    options.on_step = [this](const StepReport& report) { steps_done = report.step + 1; };
    options.validation.evaluate = [this] {
      measured_at.push_back(steps_done);
      Evaluation found;
      found.loss = losses.at(measured_at.size() - 1);
      found.batches = 4;
      found.samples = 48;
      return found;
    };
    return hetsynth::train(*executor, *open_data(fake_reference(), {"", 5}), options);
  }
};

TEST(Validations, ComeEverySoManyStepsAndAtTheEnd) {
  Followed run({3, 2, 1}, 11);
  run.options.validation.every = 4;
  const TrainReport report = run.train();
  EXPECT_THAT(run.measured_at, ElementsAre(4, 8, 11));
  EXPECT_EQ(report.validation_loss, 1);
  EXPECT_THAT(run.out.str(), HasSubstr("validation after 4 steps: loss 3.0000, the lowest so far (4 batches in"));
  EXPECT_THAT(summary(report), AllOf(HasSubstr("validation loss 1.0000"), Not(HasSubstr("lowest"))));

  Followed once({2, 3}, 8);
  once.options.validation.every = 4;
  const TrainReport worse = once.train();
  EXPECT_THAT(once.measured_at, ElementsAre(4, 8)) << "the last step is not measured twice";
  EXPECT_THAT(summary(worse), HasSubstr("validation loss 3.0000 (lowest 2.0000)"));

  Followed end({1}, 8);
  end.train();
  EXPECT_THAT(end.measured_at, ElementsAre(8));

  Followed untrained({5}, 0);
  EXPECT_EQ(untrained.train().validation_loss, 5) << "without a step, the loss of the parameters as they are";
}

TEST(Validations, EndTrainingForWantOfAGain) {
  Followed run({3, 2, 2.5, 2, std::nan("")}, 100);
  run.options.validation.every = 2;
  run.options.validation.stop_after = 3;
  const TrainReport report = run.train();
  EXPECT_EQ(report.losses.size(), 10u) << "an equal loss is no gain, nor is one that is no number";
  EXPECT_TRUE(report.gave_up);
  EXPECT_FALSE(report.interrupted);
  EXPECT_EQ(report.best_validation_loss, 2);
  EXPECT_THAT(run.out.str(), HasSubstr("no gain since 2.0000, 2 times"));
  EXPECT_THAT(summary(report), HasSubstr("ended for want of a gain: 10 steps"));
}

TEST(Validations, OfAContinuedRunAreHeldAgainstItsBest) {
  Followed run({3, 2}, 4);
  run.options.validation.every = 2;
  run.options.validation.best_before = 2.5;
  EXPECT_EQ(run.train().best_validation_loss, 2);
  EXPECT_THAT(run.out.str(), HasSubstr("loss 3.0000, no gain since 2.5000, 1 time"));
}

TEST(Validations, AreRecordsOfTheLog) {
  const TemporaryFolder folder;
  Followed run({3, 4}, 4);
  run.options.log_json = folder.path("log");
  run.options.validation.every = 2;
  run.train();
  std::vector<nlohmann::json> records;
  std::istringstream log(folder.read("log"));
  for (std::string line; std::getline(log, line);)
    if (auto record = nlohmann::json::parse(line); record.value("event", "") == "validation") records.push_back(record);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[1].at("event"), "validation");
  EXPECT_EQ(records[1].at("step"), 3);
  EXPECT_EQ(records[1].at("validation_loss"), 4);
  EXPECT_EQ(records[1].at("samples"), 48);
  EXPECT_EQ(records[0].at("best"), true);
  EXPECT_EQ(records[1].at("best"), false);
}

TEST(Validations, KeepTheBestCheckpointWithItsLoss) {
  const TemporaryFolder folder;
  Followed run({3, 1.5, 2, 4}, 8);
  run.options.checkpoint = folder.path("a.st");
  run.options.keep.best = true;
  run.options.validation.every = 2;
  run.train();
  const CheckpointInfo best = read_checkpoint_info(folder.path("a.st.best")),
                       last = read_checkpoint_info(folder.path("a.st"));
  EXPECT_EQ(best.next_step, 4);
  EXPECT_EQ(best.validation_loss, 1.5);
  EXPECT_EQ(last.next_step, 8);
  EXPECT_EQ(last.validation_loss, 4);
  EXPECT_EQ(check_checkpoint(folder.path("a.st.best")).next_step, 4) << "it is whole";
}

TEST(Validations, AndCheckpointsAreInTheReportAndInTheLog) {
  const TemporaryFolder folder;
  Followed run({3, 1.5, 2}, 6);
  run.options.checkpoint = folder.path("a.st");
  run.options.log_json = folder.path("log");
  run.options.keep.best = true;
  run.options.validation.every = 2;
  const TrainReport report = run.train();
  EXPECT_THAT(report.checkpoints, ElementsAre(folder.path("a.st"), folder.path("a.st.best")));
  ASSERT_EQ(report.validations.size(), 3u);
  EXPECT_EQ(report.validations[1].step, 3);
  EXPECT_TRUE(report.validations[1].is_best);
  EXPECT_FALSE(report.validations[2].is_best);
  EXPECT_EQ(report.next_step, 6);
  EXPECT_EQ(report.step_seconds.size(), 6u);
  std::vector<nlohmann::json> records;
  std::istringstream log(folder.read("log"));
  for (std::string line; std::getline(log, line);)
    if (auto record = nlohmann::json::parse(line); record.value("event", "") == "checkpoint") records.push_back(record);
  ASSERT_EQ(records.size(), 3u) << "after two gains, and at the end";
  EXPECT_EQ(records[1].at("kept").at(0), folder.path("a.st.best"));
  EXPECT_EQ(records[1].at("next_step"), 4);
  EXPECT_TRUE(records[2].at("kept").empty());
}

TEST(KeptCheckpoints, AreTheLastFewOfThisRun) {
  const TemporaryFolder folder;
  folder.write("a.st.1", "somebody's file");
  Followed run({1}, 9);
  run.options.checkpoint = folder.path("a.st");
  run.options.checkpoint_every = 2;
  run.options.keep.last = 3;
  run.train();
  for (const auto& [step, there] : std::map<int, bool>{{2, false}, {4, false}, {6, true}, {8, true}, {9, true}}) {
    const std::string path = checkpoint_of_step(folder.path("a.st"), step);
    EXPECT_EQ(std::filesystem::exists(path), there) << step;
    if (there) {
      EXPECT_EQ(check_checkpoint(path).next_step, step);
    }
  }
  EXPECT_EQ(folder.read("a.st.1"), "somebody's file");
}

TEST(KeptCheckpoints, AreAskedForByAWordOrANumber) {
  EXPECT_EQ(keep_rule("last"), KeepRule{});
  EXPECT_TRUE(keep_rule("best").best);
  EXPECT_EQ(keep_rule("5").last, 5);
  for (const char* wrong : {"", "0", "-1", "5x", "all"})
    EXPECT_THAT(error_of([&] { keep_rule(wrong); }),
                AllOf(HasSubstr("[--keep]"), HasSubstr("last, best, or how many of the last")))
        << wrong;
}

}  // namespace
}  // namespace hetsynth
