// Runs whose devices are not as fast as planned, or become slower: what Balance does between their steps.
#include "cli/balance.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "cli/join_desk.h"
#include "dsl/base/error.h"
#include "runtime/launch.h"
#include "runtime/training/checkpoint.h"

namespace hetsynth::cli {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

const char* const model_text = R"(#include "hetsynth/hetsynth.h"
using namespace hetsynth;

void model() {
  int64_t batch = option("batch", 960, "samples per step");
  auto [x, labels] = synthetic_batch(batch, 64, 3);
  Tensor h = relu(matmul(x, parameter("w1", {64, 256}, normal(0.1))));
  h = relu(matmul(h, parameter("w2", {256, 256}, normal(0.1))));
  Tensor loss = cross_entropy(matmul(h, parameter("w3", {256, 3}, normal(0.1))), labels);
  minimize(loss, Adam{.learning_rate = 0.001});
}
)";

/// Two devices of equal speed by the file. A duty below 1 makes a device sleep for a part of its time, which its
/// declared speed makes up for in the plan where `told` is false.
std::string cluster_text(double duty, bool told, const std::string& latency = "0.1 us") {
  const auto device = [](const std::string& name, double speed, double part) {
    return fmt::format(
        "[[host.device]]\nname = \"{}\"\nkind = \"cpu\"\nmemory = \"1 GiB\"\nduty = {}\n"
        "declared = {{ matmul = \"{} GFLOP/s\", memory_bandwidth = \"{} GB/s\" }}\n",
        name, part, 10 * speed, 2 * speed);
  };
  return "name = \"two\"\n[[host]]\ninside = { bandwidth = \"50 GB/s\", latency = \"" + latency + "\" }\n" +
         device("a", 1, 1) + device("b", told ? 1 : 1 / duty, duty);
}

class Balancing : public ::testing::Test {
 protected:
  Balancing() {
    std::string pattern = (fs::temp_directory_path() / "hetsynth_balance_XXXXXX").string();
    folder = ::mkdtemp(pattern.data());
    std::ofstream(folder / "model.cpp") << model_text;
  }
  ~Balancing() override {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }

  /// Plans, and makes ranks.
  void prepare(const std::string& cluster, BalanceMode mode, int64_t steps) {
    std::ofstream(folder / "c.toml") << cluster;
    options.compilation.model_options.file = (folder / "model.cpp").string();
    options.compilation.cluster_file = (folder / "c.toml").string();
    options.compilation.pins.mesh = {2};
    options.balance = mode;
    steps_to_do = steps;
    options.train.steps = 1'000'000;  // what a division gains is for long
    options.data.seed = 5;
    run_pipeline(options.compilation, "check", options.pipeline);
    Compilation& c = options.compilation;
    ASSERT_EQ(c.verification.verdict, Verdict::proved);
    data = open_data(c.reference, options.data);
    executing = {.seed = 5, .threads = {1, false}};
    LaunchOptions launching{.executor = executing};
    CompiledRanks ranks = compiled(c.reference, c.plan.program, c.cluster, launching);
    executor = std::make_unique<Executor>(c.reference, ranks.mesh, std::move(ranks.programs), executing);
    executor->initialise();
  }

  /// Ranks that sleep for as long as a device of its part of the work would compute, so that their speeds are known
  /// whatever else the machine does; device b sleeps three times as long in steps from `slow_from` to before
  /// `slow_until`.
  CompiledRanks compiled(const Program& reference, const SpmdProgram& program, const Cluster& cluster,
                         const LaunchOptions& launching) {
    CompiledRanks out = compile_ranks(reference, program, cluster, launching);
    if (seconds_alone == 0) return out;
    const std::vector<int64_t>& bounds = program.tables.at(0).bounds;  // of the batch
    for (size_t rank = 0; rank < out.programs.size(); ++rank) {
      const double share = double(bounds.at(rank + 1) - bounds.at(rank)) / double(bounds.back());
      const bool is_b = out.programs[rank].device.name == "b";
      StepFunction& run = out.programs[rank].step;
      run = [this, share, is_b, step = run](HetsynthContext* context) {
        const bool slow = is_b && context->step >= slow_from && context->step < slow_until;
        std::this_thread::sleep_for(std::chrono::duration<double>((slow ? 3 : 1) * share * seconds_alone));
        return step(context);
      };
    }
    return out;
  }

  BalanceMeans means() {
    BalanceMeans out;
    out.compile = [this](const auto&... all) { return compiled(all...); };
    return out;
  }

  TrainReport train_balanced(BalanceMeans means) {
    Balance balance(options, *executor, executing, nullptr, std::move(means));
    options.train.out = &out;
    options.train.log_json = (folder / "log").string();
    options.train.between_steps = [&](const StepReport& report) { return balance.after(report); };
    options.train.before_writing = [&] { balance.settle(); };
    return train(*executor, *data, training());
  }
  TrainOptions training() const {
    TrainOptions out = options.train;
    out.steps = steps_to_do;
    return out;
  }

  std::vector<nlohmann::json> events() const {
    std::vector<nlohmann::json> found;
    std::ifstream log(folder / "log");
    for (std::string line; std::getline(log, line);)
      if (const auto record = nlohmann::json::parse(line); record.contains("event")) found.push_back(record);
    return found;
  }
  std::vector<std::string> kinds() const {
    std::vector<std::string> found;
    for (const auto& event : events()) found.push_back(event["event"]);
    return found;
  }

  std::vector<double> undisturbed_losses() {
    Compilation& c = options.compilation;
    const auto plain = launch(c.reference, c.plan.program, c.cluster, {.executor = executing});
    return train(*plain, *data, training()).losses;
  }

  fs::path folder;
  RunOptions options;
  ExecutorOptions executing;
  std::unique_ptr<BatchSource> data;
  std::unique_ptr<Executor> executor;
  std::ostringstream out;
  int64_t slow_from = 1 << 30, slow_until = 1 << 30;
  double seconds_alone = 0;  ///< of a step on one device; 0: what it takes
  int64_t steps_to_do = 0;
};

void expect_near(const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size());
  // Sums over the batch are added in another order: float32 roundings, which 80 steps carry on.
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-4) << "step " << i;
}

TEST_F(Balancing, ADeviceThatIsSlowerThanItsFileSaysGetsLess) {
  prepare(cluster_text(0.25, /*told=*/false), BalanceMode::shares, 80);
  const auto share_of_b = [&] { return options.compilation.plan.prediction.devices.at(1).share; };
  EXPECT_NEAR(share_of_b(), 0.5, 0.05);
  const std::vector<double> expected = undisturbed_losses();
  const TrainReport report = train_balanced(means());
  expect_near(report.losses, expected);
  EXPECT_LT(share_of_b(), 0.35);
  EXPECT_THAT(kinds(), Contains("division"));
  EXPECT_THAT(out.str(), HasSubstr("the work is divided anew: other shares of the same program"));
  for (const auto& event : events()) {
    if (event["event"] != "division") continue;
    EXPECT_EQ(event["changed"], "shares");
    EXPECT_GT(event["predicted_now"], event["predicted_next"]);
    EXPECT_GT(event["pause_seconds"], 0);
  }
  EXPECT_THAT(report.devices, ElementsAre("a", "b"));
}

TEST_F(Balancing, EqualDevicesKeepEqualShares) {
  seconds_alone = 0.05;
  prepare(cluster_text(1, /*told=*/true), BalanceMode::shares, 60);
  const std::vector<double> expected = undisturbed_losses();
  const TrainReport report = train_balanced(means());
  expect_near(report.losses, expected);
  EXPECT_THAT(kinds(), Contains("kept"));
  EXPECT_NEAR(options.compilation.plan.prediction.devices.at(1).share, 0.5, 0.06);
}

TEST_F(Balancing, ADeviceThatBecomesSlowerGetsLessAndItsPartBackAfterwards) {
  slow_from = 40;
  slow_until = 100;
  seconds_alone = 0.05;
  prepare(cluster_text(1, true), BalanceMode::shares, 180);
  const std::vector<double> expected = undisturbed_losses();
  const TrainReport report = train_balanced(means());
  expect_near(report.losses, expected);
  double while_slow = 1;
  int64_t told_at = 0, divided_at = 0;
  for (const auto& event : events()) {
    const int64_t step = event["step"];
    if (event["event"] == "speed" && step >= slow_from && told_at == 0 && event["device"] == "b") told_at = step;
    if (event["event"] != "division" || step < slow_from) continue;
    if (divided_at == 0) divided_at = step;
    if (step < slow_until) while_slow = event["shares"]["b"];
  }
  EXPECT_GE(told_at, slow_from);
  EXPECT_LE(told_at, slow_from + 6) << out.str();
  EXPECT_GE(divided_at, told_at);
  EXPECT_NEAR(while_slow, 0.25, 0.06) << out.str();  // speeds of 1 and 1/3
  EXPECT_NEAR(options.compilation.plan.prediction.devices.at(1).share, 0.5, 0.06) << out.str();
}

TEST_F(Balancing, AnotherPlanMayLeaveADeviceOut) {
  prepare(cluster_text(0.03, /*told=*/false, "200 us"), BalanceMode::plan, 80);
  options.compilation.pins = {};
  const std::vector<double> expected = undisturbed_losses();
  const TrainReport report = train_balanced(means());
  expect_near(report.losses, expected);
  EXPECT_THAT(report.devices, ElementsAre("a")) << out.str();
  EXPECT_THAT(out.str(), HasSubstr("the work is divided anew: another program"));
  // The log goes on with the devices that are left.
  std::ifstream log(folder / "log");
  std::string line, last;
  while (std::getline(log, line)) last = line;
  EXPECT_THAT(nlohmann::json::parse(last)["idle"].size(), 1u);
}

/// Three devices that compute for a third of the time, of which c is left out.
constexpr const char* with_a_third = R"(name = "three"
[[host]]
name = "h"
inside = { bandwidth = "50 GB/s", latency = "0.1 us" }
device = [
  { name = "a", kind = "cpu", memory = "1 GiB", duty = 0.3, declared = { matmul = "30 GFLOP/s", memory_bandwidth = "6 GB/s" } },
  { name = "b", kind = "cpu", memory = "1 GiB", duty = 0.3, declared = { matmul = "30 GFLOP/s", memory_bandwidth = "6 GB/s" } },
  { name = "c", kind = "cpu", memory = "1 GiB", duty = 0.3, declared = { matmul = "30 GFLOP/s", memory_bandwidth = "6 GB/s" } },
]
)";

class Joining : public Balancing {
 protected:
  void prepare_for(int64_t steps) {
    options.compilation.without = {"c"};
    prepare(with_a_third, BalanceMode::plan, steps);
    options.compilation.pins = {};
    options.train.checkpoint = checkpoint;
    options.program = "the model";
  }
  JoinRequest request() const {
    const ElasticNotice notice = read_notice(checkpoint);
    return {.id = {},
            .run = notice.run,
            .version = notice.version,
            .program = "the model",
            .host = "c",
            .address = {},
            .cluster_file = notice.cluster_file};
  }
  const std::string checkpoint = (folder / "c.st").string();
};

TEST_F(Joining, ADeviceThatAsksIsPlannedFor) {
  prepare_for(300);
  std::optional<JoinTicket> ticket;
  std::optional<JoinAnswer> answer;
  options.train.on_step = [&](const StepReport& report) {
    if (report.step == 20) ticket.emplace(read_notice(checkpoint), request());
    if (answer || report.step <= 20) return;
    for (const JoinAnswer& one : read_notice(checkpoint).answers)
      if (one.state != JoinAnswer::State::waiting) answer = one;
  };
  const TrainReport report = train_balanced(means());
  EXPECT_EQ(report.losses.size(), 300u);
  ASSERT_TRUE(answer) << out.str();
  EXPECT_EQ(answer->state, JoinAnswer::State::joined) << answer->why.render();
  EXPECT_THAT(out.str(),
              AllOf(HasSubstr("balance: c asks to join after step"),
                    HasSubstr(fmt::format("balance: after step {} the work is divided anew", answer->step - 1))));
  EXPECT_THAT(options.compilation.all_devices.devices.size(), 3u);
  EXPECT_FALSE(fs::exists(checkpoint + ".balance")) << "the notice was left";
}

TEST_F(Joining, ARequestThatIsWithdrawnChangesNothing) {
  prepare_for(200);
  std::optional<JoinTicket> ticket;
  std::vector<JoinAnswer> answers;
  options.train.on_step = [&](const StepReport& report) {
    if (report.step == 20) ticket.emplace(read_notice(checkpoint), request());
    if (report.step > 20 && answers.empty()) answers = read_notice(checkpoint).answers;
    if (!answers.empty()) ticket.reset();
  };
  const TrainReport report = train_balanced(means());
  ASSERT_EQ(answers.size(), 1u) << out.str();
  EXPECT_EQ(answers[0].state, JoinAnswer::State::waiting);
  EXPECT_EQ(options.compilation.all_devices.devices.size(), 2u) << out.str();
  EXPECT_THAT(report.devices, ElementsAre("a", "b"));
}

TEST_F(Balancing, SourceThatIsRefutedTakesTheRunBack) {
  prepare(cluster_text(0.25, /*told=*/false), BalanceMode::shares, 80);
  options.train.checkpoint = (folder / "c.st").string();
  BalanceMeans refuting;
  refuting.check = [](const Program&, const SpmdProgram&, const std::vector<DeviceProgram>&) {
    GeneratedCheck out;
    out.verdict = Verdict::refuted;
    out.ranks.resize(1);
    out.ranks[0].verdict = Verdict::refuted;
    out.ranks[0].summary = "rank1.cpp:7 adds what it should subtract";
    return out;
  };
  try {
    train_balanced(refuting);
    FAIL() << "training went on";
  } catch (const InternalError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("rank1.cpp:7 adds what it should subtract"),
                                    HasSubstr("was taken back to the end of step"), HasSubstr("refuted-plan.json")));
  }
  int64_t divided_at = -1;
  for (const auto& event : events())
    if (event["event"] == "division" && divided_at < 0) divided_at = event["step"];
  ASSERT_GE(divided_at, 0);
  // What was trained until then is kept, to the bit.
  EXPECT_EQ(read_checkpoint_info(options.train.checkpoint).next_step, divided_at + 1);
  const auto executed = std::move(executor);
  options = {};
  prepare(cluster_text(0.25, /*told=*/false), BalanceMode::off, divided_at + 1);
  train(*executor, *data, training());
  for (const Node& node : options.compilation.reference.nodes) {
    if (node.kind == NodeKind::parameter) {
      EXPECT_EQ(executed->read(node.id).bytes, executor->read(node.id).bytes);
    }
  }
}

}  // namespace
}  // namespace hetsynth::cli
