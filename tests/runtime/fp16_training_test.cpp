// A model in fp16 with a loss scale that follows its gradients, trained on one rank and on uneven ones, against the
// float64 interpreter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "dsl/ir/interpreter.h"
#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "runtime/data/batch_source.h"
#include "runtime/launch.h"
#include "runtime/training/train.h"
#include "synth/planner/synthesize.h"
#include "tests/runtime/plans.h"
#include "verify/verify.h"

namespace hetsynth {
namespace {

using testing::cpu_cluster;
using testing::split_plan;

constexpr int64_t steps = 40;
constexpr uint64_t seed = 5;

/// Gradients of a loss times 2^22 overflow fp16 in the first steps, and would vanish in part without a scale.
Program model() {
  Trace trace("fp16.cpp");
  run_builder(trace, [] {
    mixed_precision("fp16", DynamicLossScale{.initial = 0x1p22, .growth = 2, .backoff = 0.25, .interval = 8});
    auto [x, labels] = synthetic_batch(24, 12, 4);
    Tensor h = gelu(matmul(x, parameter("w1", {12, 20}, normal(0.3))) + parameter("b1", {20}, zeros()));
    minimize(cross_entropy(matmul(h, parameter("w2", {20, 4}, normal(0.3))), labels), SGD{.learning_rate = 0.2});
  });
  return differentiate(trace);
}

struct Result {
  std::vector<double> losses;
  double scale = 0;
};

Result interpreted(const Program& program) {
  const auto data = open_data(program, {"", seed});
  Bindings leaves = initial_values(program, seed);
  Result out;
  for (int64_t step = 0; step < steps; ++step) {
    for (auto& [node, contents] : whole_batch(program, *data, step)) leaves[node] = contents;
    const std::vector<Array> values = interpret(program, leaves, {seed, step});
    out.losses.push_back(values[size_t(program.loss)].values[0]);
    for (const Update& update : program.updates) leaves[update.target] = values[size_t(update.value)];
  }
  for (const auto& [node, array] : leaves)
    if (program[node].name == "loss_scale") out.scale = array.values[0];
  return out;
}

Result trained(const Program& program, const Plan& plan, const Cluster& cluster) {
  const auto data = open_data(program, {"", seed});
  LaunchOptions options;
  options.executor.seed = seed;
  options.executor.threads.threads_per_rank = 1;
  options.optimization = 1;
  const auto executor = launch(program, plan.program, ranks_of(plan, cluster), options);
  TrainOptions train_options;
  train_options.steps = steps;
  Result out{train(*executor, *data, train_options).losses};
  for (const Node& node : program.nodes)
    if (node.name == "loss_scale") out.scale = to_array(executor->read(node.id)).values.at(0);
  return out;
}

/// A float32 sum that falls to the other side of a rounding to fp16 moves that element by 2^-10 of itself, and so, over
/// 40 steps of the same direction, a loss around 1 by a few of these.
constexpr double bound = 4 * 0x1p-10;

TEST(Fp16Training, OnOneAndOnUnevenRanksIsTheInterpreters) {
  const Program program = model();
  const Result wanted = interpreted(program);
  EXPECT_LT(wanted.losses.back(), 0.8 * wanted.losses.front()) << "it trains";
  EXPECT_LT(wanted.scale, 0x1p22) << "some steps were skipped";
  EXPECT_GE(wanted.scale, 0x1p8) << "and more were not";
  const Cluster one = cpu_cluster({1}), two = cpu_cluster({1, 3}), three = cpu_cluster({3, 1, 2});
  const std::pair<Plan, Cluster> plans[] = {{single_device_plan(program, one), one},
                                            {data_parallel_plan(program, two, RatioRule::proportional), two},
                                            {data_parallel_plan(program, three, RatioRule::proportional), three},
                                            {split_plan(program, three, "w1", 1, {9, 4, 7}), three}};
  for (const auto& [plan, cluster] : plans) {
    SCOPED_TRACE(cluster.devices.size());
    EXPECT_EQ(verify(program, plan.program).verdict, Verdict::proved);
    const Result found = trained(program, plan, cluster);
    EXPECT_EQ(found.scale, wanted.scale) << "all ranks skip the same steps";
    ASSERT_EQ(found.losses.size(), wanted.losses.size());
    for (size_t step = 0; step < wanted.losses.size(); ++step)
      EXPECT_NEAR(found.losses[step], wanted.losses[step], bound) << step;
  }
}

}  // namespace
}  // namespace hetsynth
