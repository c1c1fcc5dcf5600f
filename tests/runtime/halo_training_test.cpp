// Training on images that are divided by rows, with halo exchanges: in one process and in several, and with leaves that
// are held with their halos.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "runtime/launch.h"
#include "runtime/processes/placement.h"
#include "runtime/training/checkpoint.h"
#include "runtime/training/train.h"
#include "tests/runtime/plans.h"
#include "tests/runtime/process_runs.h"
#include "tests/runtime/rank_harness.h"
#include "tests/runtime/temporary_folder.h"
#include "tests/support/plan_builder.h"
#include "tests/support/window_plan.h"

namespace hetsynth {
namespace {

using namespace testing;  // NOLINT: fixtures of this folder
using test::window_plan;
using testing_support::DoubleProcesses;

constexpr int64_t steps = 6;
constexpr uint64_t seed = 11;

Program network() {
  Trace trace("rows.cpp");
  run_builder(trace, [] {
    auto [images, labels] = synthetic_images(3, 2, 16, 6, 5);
    Tensor x = relu(conv2d(images, parameter("w0", {4, 2, 3, 3}, normal(0.3)), {.padding = 1}));
    x = max_pool2d(x, 3, {.stride = 2, .padding = 1});
    x = conv2d(x, parameter("w1", {5, 4, 3, 3}, normal(0.3)), {.padding = 1});
    minimize(cross_entropy(mean(mean(x, 3), 2), labels), SGD{.learning_rate = 0.1, .momentum = 0.9});
  });
  return differentiate(trace);
}

NodeId images_of(const Program& p) {
  for (const Node& node : p.nodes)
    if (node.kind == NodeKind::input && node.type.shape.size() == 4) return node.id;
  throw InternalError("no images");
}

SpmdProgram by_rows(const Program& p) { return window_plan(p, {{"rows", 2, {0, 1, 1, 4}}}, {p[images_of(p)].name}); }

/// The images come to each rank with their halo: no exchange brings it.
SpmdProgram with_wide_images(const Program& p) {
  SpmdProgram plan = by_rows(p);
  const int exchange = test::find(plan, p, Opcode::halo_exchange, p[images_of(p)].name);
  const Instruction moved = plan.instructions.at(size_t(exchange));
  plan.values[size_t(moved.operands[0])].placements = plan.values[size_t(moved.result)].placements;
  test::drop(plan, exchange);
  return plan;
}

Outcome trained_some(const Program& program, const SpmdProgram& plan, Job* job = nullptr, int processes = 1) {
  TrainOptions training;
  training.steps = steps;
  return trained(program, plan, cpu_cluster({1, 1, 1}), {"", seed}, training, job, processes);
}

TEST(TrainingByRows, FollowsTheInterpreter) {
  const Program program = network();
  const SpmdProgram plan = by_rows(program);
  // Images, what is pooled (for its maxima and their places), what was pooled, and the gradients of the results.
  EXPECT_GE(test::count_of(plan, Opcode::halo_exchange), 4) << text(plan, program);
  const Outcome found = trained_some(program, plan);
  const auto data = open_data(program, {"", seed});
  Bindings leaves = initial_values(program, seed);
  ASSERT_EQ(found.losses.size(), size_t(steps));
  for (int64_t step = 0; step < steps; ++step) {
    for (auto& [node, value] : whole_batch(program, *data, step)) leaves[node] = value;
    const std::vector<Array> values = interpret(program, leaves, {seed, step});
    // Near ln 5; a row that is another one's moves it by 1e-3 and more.
    EXPECT_NEAR(found.losses[size_t(step)], values[size_t(program.loss)].values[0], 5e-6) << "step " << step;
    for (const Update& update : program.updates) leaves[update.target] = values[size_t(update.value)];
  }
}

TEST(TrainingByRows, OfImagesThatAreReadWithTheirHaloIsTheSame) {
  const Program program = network();
  const SpmdProgram plan = by_rows(program), wide = with_wide_images(program);
  EXPECT_EQ(test::count_of(wide, Opcode::halo_exchange), test::count_of(plan, Opcode::halo_exchange) - 1);
  expect_equal(trained_some(program, wide), trained_some(program, plan));
}

TEST(TrainingByRows, InProcessesIsTheSameToTheBit) {
  const Program program = network();
  for (const SpmdProgram& plan : {by_rows(program), with_wide_images(program)}) {
    const Outcome alone = trained_some(program, plan);
    DoubleProcesses network({"here", "here", "here"});
    std::vector<Outcome> outcomes(3);
    const auto thrown = in_processes(
        network, 3, {}, [&](Job& job) { outcomes[size_t(job.process())] = trained_some(program, plan, &job, 3); });
    EXPECT_THAT(thrown, ::testing::Each(""));
    for (const Outcome& outcome : outcomes) expect_equal(outcome, alone);
    EXPECT_EQ(network.undelivered(), 0);
  }
}

/// A parameter and an output that ranks hold parts of their neighbours' of.
TEST(Overlapping, TensorsAreInitialisedReadWrittenAndSaved) {
  Trace trace("rows.cpp");
  run_builder(trace, [] {
    Tensor x = parameter("x", {1, 2, 8, 5}, normal(1)), w = parameter("w", {2, 2, 3, 3}, normal(1));
    Tensor y = conv2d(x, w, {.padding = 1});
    output("y", y);
    output("z", conv2d(y, w, {.padding = 1}));
  });
  Program& p = trace.program;
  for (Node& node : p.nodes)
    if (node.name.empty()) node.name = fmt::format("t{}", node.id);
  test::PlanBuilder b(p, {{"rows", 4}});
  const int t = b.table("rows", 0, 8, {0, 1, 1, 5, 8});
  const NodeId y = p.outputs[0].node, z = p.outputs[1].node;
  const ValueId x = b.leaf("x", {Placement::overlapping(2, t, 1, 2)}), w = b.leaf("w");
  const ValueId made = b.compute(p[y].name, {x, w}, {{"y", t}});
  b.compute(p[z].name, {b.halo_exchange(made, 0, 1, 1), w}, {{"y", t}});
  const Cluster cluster = cpu_cluster({1, 1, 1, 1});
  const auto executor = launch(p, b.plan, cluster, {.executor = {.seed = seed, .threads = {1, false}}});
  const auto data = open_data(p, {"", seed});
  executor->initialise();
  const auto expect_step = [&](const Bindings& leaves) {
    executor->step(0, *data);
    const std::vector<Array> expected = interpret(p, leaves, {seed, 0});
    for (const NodeId node : {y, z}) {
      const Array found = to_array(executor->read(node));
      for (size_t i = 0; i < found.values.size(); ++i)
        ASSERT_NEAR(found.values[i], expected[size_t(node)].values[i], 1e-3) << p[node].name << " " << i;
    }
  };
  Bindings leaves = initial_values(p, seed);
  const NodeId of_x = b.node("x");
  EXPECT_EQ(executor->read(of_x).bytes, to_host_tensor(leaves[of_x], DType::f32).bytes);
  expect_step(leaves);
  const TemporaryFolder folder;
  save_checkpoint(folder.path("before"), *executor, {.next_step = 1});
  for (double& value : leaves[of_x].values) value = float(2 - value);
  executor->write(of_x, to_host_tensor(leaves[of_x], DType::f32));
  EXPECT_EQ(executor->read(of_x).bytes, to_host_tensor(leaves[of_x], DType::f32).bytes);
  expect_step(leaves);
  load_checkpoint(folder.path("before"), *executor);
  expect_step(initial_values(p, seed));
}

}  // namespace
}  // namespace hetsynth
