// The training loop on a hand-written program: reproducibility, logs, interruption, non-finite losses.
#include "runtime/training/train.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>

#include "dsl/base/error.h"
#include "runtime/rank/interrupt.h"
#include "runtime/training/step_log.h"
#include "tests/runtime/fake_program.h"
#include "tests/runtime/temporary_folder.h"
#include "tests/support/error_of.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace testing;  // NOLINT: fixtures of this folder

TrainReport train_fake(const FakeOptions& fake, const TrainOptions& options) {
  const auto executor = fake_executor(fake);
  const auto data = open_data(fake_reference(), {"", 5});
  return train(*executor, *data, options);
}

std::vector<nlohmann::json> lines_of(const std::string& text) {
  std::vector<nlohmann::json> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(nlohmann::json::parse(line));
  return out;
}

TEST(Train, SameSeedAndPlanGiveTheSameBits) {
  TrainOptions options;
  options.steps = 30;
  const TrainReport first = train_fake(three_uneven_ranks(), options),
                    second = train_fake(three_uneven_ranks(), options);
  EXPECT_EQ(first.losses.size(), 30u);
  EXPECT_EQ(first.losses, second.losses);
  EXPECT_FALSE(first.interrupted);
  EXPECT_EQ(first.idle.size(), 3u);
}

TEST(Train, SignalFinishesTheStepAndStops) {
  TrainOptions options;
  options.steps = 50;
  options.on_step = [](const StepReport& report) {
    if (report.step == 3) raise(SIGINT);
  };
  const TrainReport report = train_fake(three_uneven_ranks(), options);
  EXPECT_EQ(report.losses.size(), 4u);
  EXPECT_TRUE(report.interrupted);
  EXPECT_THAT(summary(report), HasSubstr("stopped after 4 steps"));
}

TEST(Train, SecondSignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        const InterruptGuard guard;
        raise(SIGTERM);
        raise(SIGTERM);
      },
      ::testing::KilledBySignal(SIGTERM), "");
}

TEST(Train, LossThatIsNotFiniteNamesItsStepAndIsLogged) {
  TemporaryFolder folder;
  FakeOptions fake = three_uneven_ranks();
  fake.not_finite_at = 4;
  TrainOptions options;
  options.log_json = folder.path("log.jsonl");
  EXPECT_THAT(error_of([&] { train_fake(fake, options); }),
              AllOf(HasSubstr("the loss of step 4 is nan"), HasSubstr("learning rate")));
  const auto lines = lines_of(folder.read("log.jsonl"));
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_TRUE(lines[4].at("loss").is_null());
}

TEST(Train, LogHoldsOneRecordPerStepAndIsAppendedTo) {
  TemporaryFolder folder;
  TrainOptions options;
  options.steps = 3;
  options.log_json = folder.path("log.jsonl");
  const TrainReport report = train_fake(three_uneven_ranks(), options);
  auto lines = lines_of(folder.read("log.jsonl"));
  ASSERT_EQ(lines.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(lines[i].at("step"), i);
    EXPECT_EQ(lines[i].at("loss").get<double>(), report.losses[i]);
    EXPECT_GT(lines[i].at("samples_per_second").get<double>(), 0);
    for (const char* key : {"idle", "compute_seconds", "communication_bytes", "memory_bytes"}) {
      for (const char* device : {"dev0", "dev1", "dev2"})
        EXPECT_TRUE(lines[i].at(key).at(device).is_number()) << key << device;
    }
  }
  folder.write("log.jsonl", folder.read("log.jsonl") + "{\"step\":3,");  // a run that was killed while writing
  train_fake(three_uneven_ranks(), options);
  const std::string text = folder.read("log.jsonl");
  EXPECT_THAT(text, HasSubstr("{\"step\":3,\n{\"step\":0,"));
  EXPECT_EQ(std::ranges::count(text, '\n'), 7);
}

TEST(Train, LogNeverTouchesAnotherFile) {
  TemporaryFolder folder;
  folder.write("thesis.tex", "\\documentclass{article}");
  TrainOptions options;
  options.steps = 1;
  options.log_json = folder.path("thesis.tex");
  EXPECT_THAT(error_of([&] { train_fake(three_uneven_ranks(), options); }),
              AllOf(HasSubstr("thesis.tex"), HasSubstr("no step log")));
  EXPECT_EQ(folder.read("thesis.tex"), "\\documentclass{article}");
  options.log_json = folder.path("absent/log.jsonl");
  EXPECT_THAT(error_of([&] { train_fake(three_uneven_ranks(), options); }), HasSubstr("cannot be written"));
}

TEST(Train, FailingRankIsNamedAfterThePlainLines) {
  FakeOptions fake = three_uneven_ranks();
  fake.failing_rank = 0;
  std::ostringstream out;
  TrainOptions options;
  options.out = &out;
  options.steps = 100;
  EXPECT_THROW(train_fake(fake, options), RunFailed);
  EXPECT_THAT(out.str(), HasSubstr("step  0/99"));
}

StepReport report_of(int64_t step, double loss, double seconds, std::vector<double> idle) {
  StepReport report{step, loss, seconds, {}};
  for (const double value : idle) {
    RankTimes times;
    times.idle_seconds = value;
    report.ranks.push_back(times);
  }
  return report;
}

TEST(Progress, LineSaysWhatAndHowFast) {
  ProgressState state({"fast0", "slow0"}, {"tokens", 1024}, 500);
  for (int64_t step = 0; step <= 120; ++step) state.add(report_of(step, 2.5, 0.1, {0.003, 0.012}));
  EXPECT_EQ(state.line(), "step 120/500  loss 2.5000 (avg 2.5000)  10.2k tokens/s  idle fast0 3% slow0 12%  left 38s");
}

TEST(Progress, MetricsStandBesideTheLoss) {
  ProgressState state({"a"}, {}, 1);
  StepReport report = report_of(0, 1.0, 1.0, {0});
  report.metrics = {{"accuracy", 0.5}, {"norm", 12.25}};
  state.add(report);
  EXPECT_EQ(state.line(), "step 0/1  loss 1.0000 (avg 1.0000)  accuracy 0.5000  norm 12.2500  left 1s");
}

TEST(StepLog, MetricsStandBehindTheLoss) {
  StepReport report = report_of(0, 1.0, 1.0, {0});
  EXPECT_THAT(json_of_step(report, {"a"}, {}, {8}), Not(HasSubstr("metrics")));
  report.metrics = {{"accuracy", 0.5}, {"odd", std::nan("")}};
  EXPECT_THAT(json_of_step(report, {"a"}, {}, {8}), HasSubstr(R"("metrics":{"accuracy":0.5,"odd":null})"));
}

TEST(StepLog, WhatIsKnownOfTheOptimizerFollows) {
  const StepReport report = report_of(0, 1.0, 1.0, {0});
  EXPECT_THAT(json_of_step(report, {"a"}, {}, {8}), Not(HasSubstr("learning_rate")));
  EXPECT_THAT(json_of_step(report, {"a"}, {}, {8}, {.learning_rate = 0.25}),
              AllOf(HasSubstr(R"("loss":1.0,"learning_rate":0.25,"seconds")"), Not(HasSubstr("loss_scale"))));
  EXPECT_THAT(json_of_step(report, {"a"}, {}, {8}, {.loss_scale = 8, .skipped_steps = 3}),
              HasSubstr(R"("loss":1.0,"loss_scale":8.0,"skipped_steps":3,"seconds")"));
}

TEST(Progress, WaitingForSamplesIsToldWhereItCounts) {
  ProgressState state({"fast0", "slow0"}, {}, 1);
  StepReport report = report_of(0, 1.0, 1.0, {0.1, 0.2});
  report.ranks[1].data_seconds = 0.25;
  state.add(report);
  EXPECT_EQ(state.line(), "step 0/1  loss 1.0000 (avg 1.0000)  idle fast0 10% slow0 20%  data 25%  left 1s");
}

TEST(Progress, WhatIsLeftOutIsTold) {
  ProgressState state({"a", "b"}, {}, 1);
  StepReport report = report_of(0, 1.0, 1.0, {0.1, 0.2});
  report.ranks[0].columns.flops = report.ranks[1].columns.flops = 100;
  report.ranks[1].columns.left_out_flops = 40;
  EXPECT_NEAR(report.left_out(), 0.2, 1e-12);
  state.add(report);
  EXPECT_EQ(state.line(), "step 0/1  loss 1.0000 (avg 1.0000)  idle a 10% b 20%  lossy b 40%  left 1s");
  EXPECT_THAT(json_of_step(report, {"a", "b"}, {}, {8, 8}), HasSubstr(R"("left_out":{"a":0.0,"b":0.4})"));
  report = report_of(1, 1.0, 1.0, {0.1, 0.2});
  state.add(report);
  EXPECT_THAT(state.line(), Not(HasSubstr("lossy")));
  EXPECT_THAT(json_of_step(report, {"a", "b"}, {}, {8, 8}), Not(HasSubstr("left_out")));
}

TEST(Progress, ManyDevicesAreSummedUp) {
  ProgressState state({"a", "b", "c", "d", "e"}, {}, 1);
  state.add(report_of(0, 1.0, 1.0, {0.1, 0.5, 0.2, 0.3, 0.4}));
  EXPECT_EQ(state.line(), "step 0/1  loss 1.0000 (avg 1.0000)  idle 10-50% (most: b)  left 1s");
}

TEST(Progress, TerminalUpdatesOneLineWithinItsWidth) {
  std::ostringstream out;
  ProgressOptions options;
  options.terminal = true;
  options.width = 20;
  Progress progress(out, options, {{"a"}, {}, 1}, 0, 1);
  progress.add(report_of(0, 1.0, 1.0, {0}));
  progress.add(report_of(1, 1.0, 1.0, {0}));
  progress.finish();
  EXPECT_EQ(out.str(), "\r\x1b[2Kstep 0/1  loss 1.00\r\x1b[2Kstep 1/1  loss 1.00\r\x1b[2Kstep 1/1  loss 1.00\n");
}

TEST(Progress, PlainLinesComeEverySoManySteps) {
  std::ostringstream out;
  Progress progress(out, {}, {{"a"}, {}, 99}, 0, 99);
  for (int64_t step = 0; step < 100; ++step) progress.add(report_of(step, 1.0, 0.001, {0}));
  progress.finish();
  EXPECT_EQ(std::ranges::count(out.str(), '\n'), 21);  // every fifth, and the last
  EXPECT_THAT(out.str(), AllOf(HasSubstr("step  5/99"), HasSubstr("step 99/99"), Not(HasSubstr("step  6/99")),
                               Not(HasSubstr("\x1b"))));
}

TEST(Progress, NumbersAreReadable) {
  EXPECT_EQ(text_of_rate(0.5), "0.50");
  EXPECT_EQ(text_of_rate(99.96), "100");
  EXPECT_EQ(text_of_rate(999.6), "1.00k");
  EXPECT_EQ(text_of_rate(12345), "12.3k");
  EXPECT_EQ(text_of_rate(4.567e6), "4.57M");
  EXPECT_EQ(text_of_duration(0.2), "1s");
  EXPECT_EQ(text_of_duration(65), "1m05s");
  EXPECT_EQ(text_of_duration(11225), "3h07m");
}

}  // namespace
}  // namespace hetsynth
