// Gradient accumulation: a step of several micro-batches is the step of one large batch, and runs one after the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "dsl/ir/interpreter.h"
#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"

namespace hetsynth {
namespace {

using Settings = std::map<std::string, std::string>;

/// Mean of squares.
void mean_model(int64_t batch, double drop = 0) {
  auto [x, y] = synthetic_batch(batch, 3, 5);
  Tensor table = parameter("table", {5, 4}, normal(0.5));
  Tensor w = parameter("w", {3, 4}, normal(0.5));
  Tensor h = dropout(tanh(matmul(x, w)), drop) - embedding(table, y);
  output("h", h);
  minimize(mean(h * h), AdamW{.learning_rate = 0.1, .clip_norm = 0.3});
}

/// Weighted mean: a sample counts by its label, so the counts of batches differ.
void counted_model(int64_t batch) {
  auto [x, y] = synthetic_batch(batch, 3, 2);
  Tensor w = parameter("w", {3}, normal(0.5));
  Tensor weights = parameter("weights", {2, 1}, normal(1));
  Tensor weight = reshape(embedding(stop_gradient(weights), y), {batch});
  Tensor error = einsum("bk,k->b", x, w) - 1.0;
  minimize({sum(error * error * weight), sum(weight)}, SGD{.learning_rate = 0.1, .momentum = 0});
}

Program program_of(const std::function<void()>& builder, const Settings& settings = {}) {
  Trace trace("model.cpp", settings);
  run_builder(trace, builder);
  return differentiate(trace);
}

/// Values of leaves: parameters by name; inputs as rows of the large batch's.
Bindings leaves_of(const Program& program, const Program& large) {
  Bindings out = initial_values(program, 3);
  for (const Node& node : program.nodes) {
    if (node.kind == NodeKind::parameter && node.name == "weights") out[node.id].values = {0.25, 1};
    if (node.kind != NodeKind::input) continue;
    for (const Node& whole : large.nodes) {
      if (whole.kind != NodeKind::input || whole.name != data_name(node)) continue;
      Array array(node.type.shape);
      int64_t row = element_count(node.type.shape) / node.type.shape[0];
      for (size_t i = 0; i < array.values.size(); ++i) {
        auto at = uint64_t(node.micro_batch.first_sample * row) + i;
        double u = philox_uniform(11, whole.id, at, 0);
        array.values[i] = node.type.dtype == DType::i32 ? std::floor(u * double(node.data.classes)) : 2 * u - 1;
      }
      out[node.id] = array;
    }
  }
  return out;
}

/// Loss and every update by name.
std::map<std::string, Array> step_of(const Program& program, const Program& large) {
  std::vector<Array> values = interpret(program, leaves_of(program, large), {5, 2});
  std::map<std::string, Array> out{{"loss", values[program.loss]}};
  for (const Update& update : program.updates) out[program[update.target].name] = values[update.value];
  return out;
}

void expect_same_step(const Program& small, const Program& large) {
  auto found = step_of(small, large), wanted = step_of(large, large);
  ASSERT_EQ(found.size(), wanted.size());
  for (const auto& [name, array] : wanted)
    for (size_t i = 0; i < array.values.size(); ++i)
      EXPECT_NEAR(found.at(name).values[i], array.values[i], 1e-12 * (1 + std::abs(array.values[i]))) << name;
}

TEST(Accumulation, OfMeansIsTheLargeBatch) {
  expect_same_step(program_of([] { mean_model(4); }, {{"micro_batches", "3"}}), program_of([] { mean_model(12); }));
}

TEST(Accumulation, OfCountsIsTheLargeBatchThoughTheyAreUneven) {
  expect_same_step(program_of([] { counted_model(4); }, {{"micro_batches", "3"}}),
                   program_of([] { counted_model(12); }));
}

TEST(Accumulation, RunsBackwardBeforeTheNextForward) {
  Program program = program_of([] { mean_model(4); }, {{"micro_batches", "3"}});
  int turns = 0, inputs = 0, parameters = 0;
  Phase last = Phase::forward;
  for (const Node& node : program.nodes) {
    inputs += node.kind == NodeKind::input;
    parameters += node.kind == NodeKind::parameter;
    if (node.leaf()) continue;
    turns += last == Phase::backward && node.phase == Phase::forward;
    last = node.phase;
  }
  EXPECT_EQ(turns, 2);
  EXPECT_EQ(inputs, 6);
  EXPECT_EQ(parameters, 2);
  EXPECT_EQ(program.outputs.size(), 1u);
  ASSERT_EQ(program.options.size(), 1u);
  EXPECT_EQ(program.options[0].name, "micro_batches");
}

TEST(Accumulation, CountsSamplesOverTheWholeStep) {
  Program program = program_of([] { mean_model(4); }, {{"micro_batches", "3"}});
  std::vector<int64_t> first;
  for (const Node& node : program.nodes)
    if (node.kind == NodeKind::input && data_name(node) == "samples") first.push_back(global_sample(node, 2, 1));
  EXPECT_THAT(first, testing::UnorderedElementsAre(2 * 12 + 1, 2 * 12 + 5, 2 * 12 + 9));
}

TEST(Accumulation, DrawsItsOwnDropoutInEveryBatch) {
  Program program = program_of([] { mean_model(4, 0.5); }, {{"micro_batches", "2"}});
  std::set<std::string> bodies;
  for (const Node& node : program.nodes)
    if (node.tag() == "dropout") bodies.insert(text(node.body));
  EXPECT_EQ(bodies.size(), 2u);
}

TEST(Accumulation, CarriesRunningStatisticsFromBatchToBatch) {
  auto builder = [] {
    auto [x, y] = synthetic_batch(4, 3, 5);
    Tensor h = batchnorm(x, parameter("gain", {3}, ones()), parameter("bias", {3}, zeros()), 1e-5, 0.5);
    minimize(mean(h * h), SGD{.learning_rate = 0.1, .momentum = 0});
  };
  Program program = program_of(builder, {{"micro_batches", "2"}}), one = program_of(builder);
  std::map<std::string, Array> twice = step_of(program, program);
  EXPECT_EQ(twice.size(), step_of(one, one).size()) << "no state of its own for the second batch";
  Bindings leaves = leaves_of(program, program);
  double expected = 0;
  for (const Node& node : program.nodes) {
    if (node.kind != NodeKind::input || data_name(node) != "samples") continue;
    double sum = 0;
    for (int64_t row = 0; row < 4; ++row) sum += leaves[node.id].values[size_t(row * 3)];
    expected = 0.5 * expected + 0.5 * sum / 4;
  }
  EXPECT_NEAR(twice.at("gain.running_mean").values[0], expected, 1e-12);
}

TEST(Accumulation, RefusesWhatIsNoNumber) {
  for (const char* value : {"0", "-2", "many", "1.5", "100000"}) {
    try {
      program_of([] { mean_model(4); }, {{"micro_batches", value}});
      FAIL() << value;
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("this is no number of micro-batches"));
      EXPECT_EQ(error.code(), ExitCode::usage);
    }
  }
}

TEST(Accumulation, RefusesAModelThatChanges) {
  int runs = 0;
  auto builder = [&] {
    auto [x, y] = synthetic_batch(4, 3, 5);
    minimize(mean(matmul(x, parameter("w", {3, ++runs}, zeros()))), SGD{});
  };
  try {
    program_of(builder, {{"micro_batches", "2"}});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("w differs from one micro-batch to the next"));
  }
}

}  // namespace
}  // namespace hetsynth
