// What a log tells of a run, read back.
#include "runtime/balance/run_history.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dsl/base/error.h"
#include "tests/runtime/temporary_folder.h"

namespace hetsynth {
namespace {

using namespace testing;  // NOLINT: fixtures of this folder
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Steps [first, last) of so many seconds each; time goes on from `elapsed`.
std::string steps(int64_t first, int64_t last, double seconds, double& elapsed) {
  std::string out;
  for (int64_t step = first; step < last; ++step) {
    elapsed += seconds;
    out += fmt::format("{{\"step\":{},\"loss\":1.5,\"seconds\":{},\"elapsed_seconds\":{}}}\n", step, seconds, elapsed);
  }
  return out;
}

TEST(RunHistory, TellsWhatADivisionBroughtByTheStepsAroundIt) {
  const TemporaryFolder folder;
  double elapsed = 0;
  std::string log = steps(0, 30, 0.1, elapsed);
  log += steps(30, 40, 0.2, elapsed);
  log += "{\"step\":33,\"event\":\"speed\",\"device\":\"b\",\"speed\":0.5,\"before\":1.0}\n";
  log +=
      "{\"step\":39,\"event\":\"division\",\"asked_at_step\":37,\"changed\":\"shares\",\"predicted_now\":0.19,"
      "\"predicted_next\":0.14,\"shares\":{\"a\":0.7,\"b\":0.3}}\n";
  elapsed += 0.5;
  log += steps(40, 140, 0.15, elapsed);
  log += "{\"step\":120,\"event\":\"kept\",\"why\":\"no other division is faster\"}\n";
  double anew = 0;
  log += steps(0, 5, 0.3, anew);
  folder.write("log", log);
  const std::vector<RunHistory> runs = read_history(folder.path("log"));
  ASSERT_EQ(runs.size(), 2u);
  const RunHistory& run = runs[0];
  EXPECT_EQ(run.steps, 140);
  EXPECT_NEAR(run.seconds, 3 + 2 + 0.5 + 15, 1e-9);
  ASSERT_EQ(run.divisions.size(), 1u);
  const DivisionRecord& division = run.divisions[0];
  EXPECT_NEAR(division.before_seconds, 0.2, 1e-9);
  EXPECT_NEAR(division.after_seconds, 0.15, 1e-9);
  EXPECT_NEAR(division.pause_seconds, 0.5, 1e-9);
  EXPECT_EQ(division.steps, 100);
  EXPECT_NEAR(division.saved_seconds(), 5, 1e-9);
  EXPECT_NEAR(run.lost_by_delay(), 6 * 0.05, 1e-9);  // told of after step 33, divided after step 39
  EXPECT_NEAR(division.shares.at("b"), 0.3, 1e-9);
  ASSERT_EQ(run.speeds.size(), 1u);
  EXPECT_EQ(run.speeds[0].device, "b");
  ASSERT_EQ(run.kept.size(), 1u);
  EXPECT_EQ(runs[1].steps, 5);
  EXPECT_TRUE(runs[1].divisions.empty());
}

TEST(RunHistory, TellsWhatWasLeftOut) {
  const TemporaryFolder folder;
  double elapsed = 0;
  std::string log = steps(0, 30, 0.1, elapsed);
  log +=
      "{\"step\":29,\"event\":\"remedy\",\"taken\":\"resize\",\"predicted_now\":0.2,\"predicted_resized\":0.1,"
      "\"work_left_out\":0.25,\"predicted_divided\":null,\"left_out\":{\"a\":0.0,\"b\":0.5}}\n";
  for (int step = 30; step < 40; ++step)
    log += fmt::format("{{\"step\":{},\"seconds\":0.1,\"left_out\":{{\"a\":0.0,\"b\":0.{}}}}}\n", step, 10 + step);
  folder.write("log", log);
  const std::vector<RunHistory> runs = read_history(folder.path("log"));
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].lossy_steps, 10);
  EXPECT_NEAR(runs[0].most_left_out, 0.49, 1e-9);
  ASSERT_EQ(runs[0].remedies.size(), 1u);
  const RemedyRecord& remedy = runs[0].remedies[0];
  EXPECT_EQ(remedy.taken, "resize");
  EXPECT_NEAR(remedy.resized_seconds, 0.1, 1e-9);
  EXPECT_EQ(remedy.divided_seconds, 0);
  EXPECT_NEAR(remedy.left_out.at("b"), 0.5, 1e-9);
}

TEST(RunHistory, TellsValidationsAndCheckpoints) {
  const TemporaryFolder folder;
  double elapsed = 0;
  std::string log = steps(0, 10, 0.1, elapsed);
  log +=
      "{\"step\":9,\"event\":\"validation\",\"validation_loss\":2.5,\"batches\":4,\"samples\":48,\"seconds\":0.2,"
      "\"best\":true,\"metrics\":{\"accuracy\":0.5,\"broken\":null}}\n";
  log += "{\"step\":9,\"event\":\"checkpoint\",\"next_step\":10,\"file\":\"a.st\",\"kept\":[\"a.st.best\"]}\n";
  log += steps(10, 20, 0.1, elapsed);
  log +=
      "{\"step\":19,\"event\":\"validation\",\"validation_loss\":null,\"batches\":1,\"samples\":12,\"seconds\":0.1,"
      "\"best\":false}\n";
  log += "{\"step\":19,\"event\":\"checkpoint\",\"next_step\":20,\"file\":\"a.st\",\"kept\":[]}\n";
  folder.write("log", log);
  const RunHistory run = read_history(folder.path("log")).at(0);
  EXPECT_EQ(run.steps, 20);
  ASSERT_EQ(run.validations.size(), 2u);
  EXPECT_EQ(run.validations[0].loss, 2.5);
  EXPECT_TRUE(run.validations[0].best);
  EXPECT_EQ(run.validations[0].samples, 48);
  EXPECT_EQ(run.validations[0].metrics, (std::map<std::string, double>{{"accuracy", 0.5}}));
  EXPECT_FALSE(run.validations[1].loss) << "it was interrupted";
  ASSERT_TRUE(run.best_validation());
  EXPECT_EQ(run.best_validation()->step, 9);
  ASSERT_EQ(run.checkpoints.size(), 2u);
  EXPECT_EQ(run.checkpoints[0].kept, std::vector<std::string>{"a.st.best"});
  EXPECT_EQ(run.checkpoints[1].file, "a.st");
}

TEST(RunHistory, AKilledRunsHalfLineIsPassedOver) {
  const TemporaryFolder folder;
  double elapsed = 0;
  folder.write("log", steps(0, 3, 0.1, elapsed) + "{\"step\":3,\"lo");
  ASSERT_EQ(read_history(folder.path("log")).size(), 1u);
  EXPECT_EQ(read_history(folder.path("log"))[0].steps, 3);
  folder.write("empty", "");
  EXPECT_TRUE(read_history(folder.path("empty")).empty());
}

TEST(RunHistory, WhatIsNoLogIsRefusedWithItsLine) {
  const TemporaryFolder folder;
  const auto told = [&](const std::string& text) -> std::string {
    folder.write("log", text);
    try {
      read_history(folder.path("log"));
      return "";
    } catch (const UserError& error) {
      return error.what();
    }
  };
  EXPECT_THAT(told("hello\nworld\n"), AllOf(HasSubstr("log:1"), HasSubstr("no log of a run"), HasSubstr("hello")));
  EXPECT_THAT(told("{\"step\":0,\"seconds\":1}\n[1]\n{\"step\":1}\n"), HasSubstr("log:2"));
  EXPECT_THAT(told("{\"step\":0,\"seconds\":\"long\"}\n{\"step\":1}\n"), HasSubstr("log:1"));
  EXPECT_THAT(told("{\"step\":0,\"event\":\"division\"}\n{\"step\":1}\n"), HasSubstr("log:1"));
  try {
    read_history(folder.path("nowhere"));
    FAIL() << "read what is not there";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot be read"));
  }
}

}  // namespace
}  // namespace hetsynth
