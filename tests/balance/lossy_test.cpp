// What lossy balancing does about devices of which it is told that they are slow: steps are made up, ranks are not.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/balance.h"
#include "runtime/launch.h"

namespace hetsynth::cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

const char* const model_text = R"(#include "hetsynth/hetsynth.h"
using namespace hetsynth;

void model() {
  auto [x, labels] = synthetic_batch(64, 64, 4);
  Tensor h = relu(matmul(x, parameter("w1", {64, 256}, normal(0.1))));
  h = relu(matmul(h, parameter("w2", {256, 256}, normal(0.1))));
  minimize(cross_entropy(matmul(h, parameter("w3", {256, 4}, normal(0.1))), labels), Adam{.learning_rate = 0.001});
}
)";

class LossyBalance : public ::testing::Test {
 protected:
  LossyBalance() {
    std::string pattern = (fs::temp_directory_path() / "hetsynth_lossy_XXXXXX").string();
    folder = ::mkdtemp(pattern.data());
    std::ofstream(folder / "model.cpp") << model_text;
    std::ofstream cluster(folder / "c.toml");
    cluster << "name = \"two\"\n[[host]]\ninside = { bandwidth = \"50 GB/s\", latency = \"0.1 us\" }\n";
    for (const char* name : {"a", "b"})
      cluster << fmt::format(
          "[[host.device]]\nname = \"{}\"\nkind = \"cpu\"\nmemory = \"1 GiB\"\n"
          "declared = {{ matmul = \"0.5 GFLOP/s\", memory_bandwidth = \"1 GB/s\" }}\n",
          name);
  }
  ~LossyBalance() override {
    balance.reset();
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }

  void prepare(int64_t steps, std::optional<int> stages = {}) {
    Compilation& c = options.compilation;
    c.model_options.file = (folder / "model.cpp").string();
    c.cluster_file = (folder / "c.toml").string();
    if (!stages) c.pins.mesh = {2};
    c.stages = stages;
    c.marked = true;
    options.balance = BalanceMode::lossy;
    options.train.steps = steps;
    run_pipeline(c, "check", options.pipeline);
    ASSERT_EQ(c.verification.verdict, Verdict::proved);
    const ExecutorOptions executing{.threads = {1, false}, .may_leave_out = true};
    executor = launch(c.reference, c.plan.program, c.cluster, {.executor = executing, .programs = &c.programs});
    for (const DevicePrediction& device : c.plan.prediction.devices) planned.push_back(device.compute_seconds);
    balance.emplace(options, *executor, executing, nullptr);
  }

  /// Steps in which device b computes at `speed` of what is planned, nine tenths of it in products.
  void steps(int64_t count, double speed) {
    for (int64_t i = 0; i < count; ++i, ++step) {
      StepReport report;
      report.step = step;
      for (size_t rank = 0; rank < size_t(executor->ranks()); ++rank) {
        // Every step differs a little: the chart learns how much from that.
        const bool is_b = executor->device_names()[rank] == "b";
        const double full = planned.at(rank) / (is_b ? speed : 1) * (1 + 0.01 * double((step + int64_t(rank)) % 3));
        const double part = executor->left_out()[rank], copying = part > 0 ? 0.02 * full : 0;
        RankTimes times;
        times.columns = {1e6, part * 1e6, 0.9 * full * (1 - part), copying};
        times.compute_seconds = full * (1 - 0.9 * part) + copying;
        report.ranks.push_back(times);
        report.seconds = std::max(report.seconds, times.compute_seconds);
      }
      // What is looked for beside the training is found some steps later.
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      const BetweenSteps done = balance->after(report);
      lines.insert(lines.end(), done.lines.begin(), done.lines.end());
      for (const std::string& record : done.records) records.push_back(nlohmann::json::parse(record));
    }
  }

  std::vector<std::string> remedies() const {
    std::vector<std::string> out;
    for (const auto& record : records)
      if (record["event"] == "remedy") out.push_back(record["taken"]);
    return out;
  }

  fs::path folder;
  RunOptions options;
  std::unique_ptr<Executor> executor;
  std::vector<double> planned;
  std::optional<Balance> balance;
  std::vector<std::string> lines;
  std::vector<nlohmann::json> records;
  int64_t step = 0;
};

TEST_F(LossyBalance, ADeviceThatIsSlowForAWhileLeavesOutWhatItIsLate) {
  prepare(60);  // too few for another division to pay
  steps(20, 1);
  EXPECT_THAT(executor->left_out(), ElementsAre(0, 0));
  EXPECT_THAT(remedies(), Not(Contains("resize")));
  steps(20, 0.7);
  EXPECT_EQ(executor->left_out()[0], 0);
  // (1 - 0.7 + 0.02) / 0.9
  EXPECT_NEAR(executor->left_out()[1], 0.35, 0.05);
  ASSERT_THAT(remedies(), Contains("resize"));
  EXPECT_THAT(lines, Contains(HasSubstr("columns are left out: a step takes")));
  for (const auto& record : records) {
    if (record["event"] != "remedy" || record["taken"] != "resize") continue;
    EXPECT_GE(record["step"], 20);
    EXPECT_LT(record["predicted_resized"], record["predicted_now"]);
    EXPECT_GT(record["work_left_out"], 0.1);
    EXPECT_LT(record["work_left_out"], 0.25);
    EXPECT_EQ(record["left_out"]["a"], 0);
    EXPECT_GT(record["left_out"]["b"], 0.25);
  }
  steps(20, 1);
  EXPECT_THAT(executor->left_out(), ElementsAre(0, 0)) << "it is fast again";
  EXPECT_EQ(remedies().back(), "nothing");
}

TEST_F(LossyBalance, OtherSharesTakeOverWhereTheyLast) {
  prepare(1'000'000);
  steps(20, 1);
  steps(20, 0.5);
  EXPECT_THAT(remedies(), Contains("resize")) << "until they are found";
  for (int i = 0; i < 200 && options.compilation.plan.prediction.devices.at(1).share > 0.45; ++i) {
    planned.clear();
    for (const DevicePrediction& device : options.compilation.plan.prediction.devices)
      planned.push_back(device.compute_seconds);
    steps(5, 0.5);
  }
  EXPECT_THAT(remedies(), Contains(::testing::AnyOf("shares", "plan")));
  EXPECT_LT(options.compilation.plan.prediction.devices.at(1).share, 0.45);
  EXPECT_THAT(executor->left_out(), ::testing::Each(0));
}

TEST_F(LossyBalance, AStageOfAPipelineLeavesColumnsOut) {
  prepare(60, 2);
  steps(20, 1);
  steps(20, 0.5);
  EXPECT_THAT(remedies(), Contains("resize"));
  EXPECT_GT(executor->left_out()[0] + executor->left_out()[1], 0.2);
}

}  // namespace
}  // namespace hetsynth::cli
