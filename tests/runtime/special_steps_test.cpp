// Training steps with a decision or a shape of their own, on one rank and on three uneven ones: dynamic loss scaling,
// and a single image that devices share by blocks of rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "runtime/launch.h"
#include "runtime/training/checkpoint.h"
#include "runtime/training/train.h"
#include "synth/planner/synthesize.h"
#include "tests/runtime/plans.h"
#include "tests/runtime/temporary_folder.h"
#include "verify/verify.h"

namespace hetsynth {
namespace {

using testing::cpu_cluster;
using testing::split_plan;

constexpr int64_t steps = 10;
constexpr uint64_t seed = 11;

struct Trained {
  std::unique_ptr<Executor> executor;
  std::vector<double> losses;

  double scalar(const std::string& name) const {
    for (const Node& node : executor->reference().nodes)
      if (node.name == name) return to_array(executor->read(node.id)).values.at(0);
    throw InternalError("no leaf " + name);
  }
};

Trained train_on(const Program& program, const Plan& plan, const Cluster& cluster, const std::string& log = "") {
  const auto data = open_data(program, {"", seed});
  LaunchOptions options;
  options.executor.seed = seed;
  options.executor.threads.threads_per_rank = 1;
  options.optimization = 1;
  Trained run{launch(program, plan.program, ranks_of(plan, cluster), options), {}};
  TrainOptions train_options;
  train_options.steps = steps;
  train_options.log_json = log;
  run.losses = train(*run.executor, *data, train_options).losses;
  return run;
}

Program traced(const std::function<void()>& model) {
  Trace trace("special.cpp");
  run_builder(trace, model);
  return differentiate(trace);
}

/// The scale is so large that gradients of the order of 10 overflow float32 at first.
constexpr double first_scale = 0x1p126;

Program scaled_model() {
  return traced([] {
    mixed_precision("bf16", DynamicLossScale{.initial = first_scale / 16, .growth = 2, .interval = 100});
    auto [x, labels] = synthetic_batch(12, 6, 3);
    Tensor h = tanh(matmul(100 * x, parameter("w1", {6, 9}, normal(0.05))));
    minimize(cross_entropy(100 * matmul(h, parameter("w2", {9, 3}, normal(0.02))), labels),
             AdamW{.learning_rate = 1e-3, .warmup_steps = 4});
  });
}

TEST(DynamicLossScaling, AllRanksSkipTheSameSteps) {
  const Program program = scaled_model();
  const Cluster one = cpu_cluster({1}), three = cpu_cluster({3, 1, 2});
  const Trained alone = train_on(program, single_device_plan(program, one), one);
  EXPECT_LT(alone.scalar("loss_scale"), first_scale / 16) << "some steps were skipped";
  EXPECT_GT(alone.scalar("loss_scale.good_steps"), 0) << "and some were not";
  EXPECT_THAT(alone.losses, ::testing::Each(::testing::Truly([](double loss) { return std::isfinite(loss); })));
  for (const Plan& plan :
       {data_parallel_plan(program, three, RatioRule::proportional), split_plan(program, three, "w1", 1, {3, 1, 2})}) {
    EXPECT_EQ(verify(program, plan.program).verdict, Verdict::proved);
    const Trained together = train_on(program, plan, three);
    EXPECT_EQ(together.scalar("loss_scale"), alone.scalar("loss_scale"));
    EXPECT_EQ(together.scalar("loss_scale.good_steps"), alone.scalar("loss_scale.good_steps"));
  }
}

/// The log tells the scale of every step and how often it fell, and the optimizer's learning rate.
TEST(DynamicLossScaling, IsTold) {
  const Program program = scaled_model();
  const Cluster one = cpu_cluster({1});
  const testing::TemporaryFolder folder;
  const std::string log = folder.path("steps");
  const Trained run = train_on(program, single_device_plan(program, one), one, log);
  std::ifstream file(log);
  std::vector<nlohmann::json> records;
  for (std::string line; std::getline(file, line);) records.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(records.size(), size_t(steps));
  double scale = first_scale / 16;
  int64_t skipped = 0, last = -1;
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(records[i].at("loss_scale"), scale) << i;
    const double next =
        i + 1 < records.size() ? records[i + 1].at("loss_scale").get<double>() : run.scalar("loss_scale");
    if (next < scale) ++skipped, last = int64_t(i);  // it does not grow within 100 steps
    EXPECT_EQ(records[i].at("skipped_steps"), skipped) << i;
    EXPECT_DOUBLE_EQ(records[i].at("learning_rate"), 1e-3 * std::min(1.0, double(i + 1) / 4)) << i;
    scale = next;
  }
  EXPECT_GT(skipped, 0);
  EXPECT_LT(skipped, steps);
  EXPECT_EQ(run.scalar("loss_scale.good_steps"), double(steps - 1 - last));
}

/// Without anybody who explains it, the error tells the step. Parameters are as good as before, and are kept.
TEST(DynamicLossScaling, GradientsThatOverflowWhateverTheScaleEndTheRun) {
  const Program program = traced([] {
    mixed_precision("bf16", DynamicLossScale{});
    auto [x, labels] = synthetic_batch(12, 6, 3);
    Tensor still = parameter("still", {2}, zeros());
    minimize(cross_entropy(matmul(x, parameter("w", {6, 3}, normal(0.05))), labels) + sum(sqrt(still * still)), SGD{});
  });
  const Cluster two = cpu_cluster({1, 2});
  const Plan plan = data_parallel_plan(program, two, RatioRule::proportional);
  const auto data = open_data(program, {"", seed});
  const auto executor = launch(program, plan.program, ranks_of(plan, two), {.optimization = 1});
  const testing::TemporaryFolder folder;
  TrainOptions options;
  options.steps = most_falls + 10;
  options.checkpoint = folder.path("c.st");
  try {
    train(*executor, *data, options);
    FAIL() << "nothing was trained";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("gradients overflowed in 20 steps in a row up to step 19"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("it fell to 0.0625, and they are not"));
  }
  EXPECT_EQ(load_checkpoint(options.checkpoint, *executor).next_step, most_falls);
}

/// One image; convolutions with stride 1 and 2 and a pool over four blocks of rows.
Program image_model() {
  return traced([] {
    auto [image, label] = image_batch(1, 3, 16, 10, 4);
    const auto conv = [](const char* name, Tensor x, int64_t outputs, int64_t stride) {
      Tensor weight = parameter(name, {outputs, x.size(1), 3, 3}, normal(0.3));
      return tanh(conv2d(x, weight, {.stride = stride, .padding = 1, .row_blocks = 4}));
    };
    Tensor x = max_pool2d(conv("w1", split_rows(image, 4), 6, 1), 3, {.stride = 1, .padding = 1, .row_blocks = 4});
    x = conv("w3", conv("w2", x, 6, 2), 5, 1);
    Tensor logits = matmul(mean(join_rows(x, 4), {2, 3}), parameter("head", {5, 4}, normal(0.5)));
    minimize(cross_entropy(logits, label), SGD{.learning_rate = 0.05});
  });
}

TEST(RowBlocks, UnevenRanksShareOneImage) {
  const Program program = image_model();
  const Cluster one = cpu_cluster({1}), three = cpu_cluster({2, 1, 1});
  const std::vector<double> alone = train_on(program, single_device_plan(program, one), one).losses;
  SynthesisOptions options;
  options.time_limit_seconds = 5;
  options.progress = {};
  for (const Plan& plan : {split_plan(program, three, "samples", 2, {2, 1, 1}),
                           split_plan(program, three, "samples", 2, {3, 0, 1}), synthesize(program, three, options)}) {
    EXPECT_EQ(verify(program, plan.program).verdict, Verdict::proved);
    const std::vector<double> together = train_on(program, plan, three).losses;
    for (size_t i = 0; i < alone.size(); ++i)
      EXPECT_NEAR(together[i], alone[i], 2e-6) << "losses near 1.4, rounded to float32 at every step: " << i;
  }
}

}  // namespace
}  // namespace hetsynth
