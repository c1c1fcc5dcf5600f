// Whole training steps of the example models for cuda ranks: compiled for GPUs by NVRTC, and executed on the CPU
// against the float64 interpreter, with streams in adversarial order and every collective checked.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cuda_programs.h"
#include "dsl/ir/trace.h"
#include "dsl/spmd/recomputation.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "runtime/jit/nvrtc.h"
#include "synth/baselines/baselines.h"
#include "synth/memory/recompute.h"
#include "synth/planner/synthesize.h"
#include "synth/schedule/attention_runs.h"
#include "synth/schedule/memory.h"
#include "synth/schedule/schedule.h"
#include "tests/support/cuda/cuda_cluster.h"

namespace gpt {
#include "examples/gpt.cpp"
}
namespace byte_model {
#include "examples/mlp.cpp"
}

namespace hetsynth::testing_support {
namespace {

using Settings = std::map<std::string, std::string>;

Program trace_model(const std::string& file, const std::function<void()>& model, const Settings& settings) {
  Trace trace(file, settings);
  run_builder(trace, model);
  return differentiate(trace);
}

Program small_gpt() {
  return trace_model(
      "gpt.cpp", gpt::model,
      {{"layers", "1"}, {"heads", "2"}, {"width", "8"}, {"seq", "6"}, {"batch", "4"}, {"dropout", "0.1"}});
}

Program small_mlp() {
  return trace_model("mlp.cpp", byte_model::model,
                     {{"context", "3"}, {"width", "4"}, {"hidden", "10"}, {"batch", "12"}});
}

struct Case {
  std::string name;
  std::vector<double> speeds;
  Plan (*plan)(const Program&, const Cluster&);
};

Plan one_device(const Program& program, const Cluster& cluster) { return single_device_plan(program, cluster); }
Plan data_parallel(const Program& program, const Cluster& cluster) {
  return data_parallel_plan(program, cluster, RatioRule::proportional);
}
Plan searched(const Program& program, const Cluster& cluster) { return synthesize(program, cluster); }

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

const Case cases[] = {{"one", {1}, one_device},
                      {"two_uneven_data_parallel", {1, 2}, data_parallel},
                      {"three_uneven_data_parallel", {1, 2, 4}, data_parallel},
                      {"three_uneven_searched", {1, 2, 4}, searched}};

Bindings starting_values(const Program& reference) {
  Bindings leaves = initial_values(reference, 11);
  for (const Node& node : reference.nodes) {
    if (node.kind != NodeKind::input) continue;
    double classes = node.data.classes > 0 ? double(node.data.classes) : 256.0;
    leaves[node.id] = random_contents(
        node, node.type.dtype == DType::i32 ? OperatorSample::Domain{0, classes - 1} : OperatorSample::Domain{}, 3);
  }
  return leaves;
}

/// Runs `steps` steps on the double and in float64, comparing losses, and contents of parameters and states at the end.
void train_and_compare(const Program& reference, const Plan& plan, const Cluster& cluster, int steps) {
  constexpr uint64_t seed = 19;
  CudaCluster gpus(reference, plan.program, cluster, {}, seed);
  Bindings leaves = starting_values(reference);
  for (const auto& [leaf, contents] : leaves) gpus.write_leaf(leaf, contents);
  for (int step = 0; step < steps; ++step) {
    gpus.step(step, step % 2 ? Eager::communication : Eager::compute, step % 2 ? Turns::reversed : Turns::forward);
    std::vector<Array> expected = interpret(reference, leaves, {seed, step});
    double loss = expected[size_t(reference.loss)].values[0];
    // float32 rounding of sums over some hundred terms of order 1; three optimizer steps amplify it.
    EXPECT_NEAR(gpus.loss(), loss, 2e-5 * (1 + std::abs(loss))) << "step " << step;
    for (const Update& update : reference.updates) leaves[update.target] = expected[size_t(update.value)];
  }
  for (const Update& update : reference.updates) {
    Array found = gpus.read(update.target);
    const Array& expected = leaves[update.target];
    for (size_t i = 0; i < found.values.size(); ++i)
      // AdamW divides by the root of tiny second moments: an error of the gradient moves a parameter by up to the
      // learning rate.
      ASSERT_NEAR(found.values[i], expected.values[i], 2e-4 * (1 + std::abs(expected.values[i])))
          << reference[update.target].name << " " << i;
  }
  EXPECT_EQ(gpus.leave(), "");
}

int64_t arena_bytes(const Program& reference, const Plan& plan, const Cluster& cluster, int rank) {
  return generate(reference, plan.program, cluster, rank).arena_bytes;
}

Program layered_gpt() {
  return trace_model("gpt.cpp", gpt::model,
                     {{"layers", "4"}, {"heads", "2"}, {"width", "8"}, {"seq", "16"}, {"batch", "9"}});
}

/// Kernels of the forward pass read what values are made again from, and must not make them then and there.
TEST(CudaMemory, ValuesMadeAgainAreMadeForTheBackwardPass) {
  const Program reference = layered_gpt();
  Cluster cluster = cuda_cluster({1, 2});
  const Plan roomy = synthesize(reference, cluster);
  for (Device& device : cluster.devices) device.memory_bytes = roomy.prediction.devices[1].memory_bytes * 8 / 10;
  const Plan tight = synthesize(reference, cluster);
  const std::vector<char> again = made_again(tight.program);
  ASSERT_GT(std::ranges::count(again, 1), 0);
  EXPECT_LT(arena_bytes(reference, tight, cluster, 1), 0.85 * double(arena_bytes(reference, roomy, cluster, 1)));
  train_and_compare(reference, tight, cluster, 2);
}

/// All that can be made again is, attention included, whose gradient reads what is made again.
TEST(CudaMemory, AttentionIsMadeAgain) {
  const Program reference = layered_gpt();
  const Cluster cluster = cuda_cluster({1, 2});
  Plan plan = data_parallel_plan(reference, cluster, RatioRule::proportional);
  const int64_t once = arena_bytes(reference, plan, cluster, 1);
  const synth::Problem problem(reference, cluster);
  std::vector<ValueId> again;
  for (const synth::Absence& absence : synth::recompute_order(problem, plan.program, 1)) again.push_back(absence.value);
  plan.program = synth::with_recomputed(problem, plan.program, again);
  const synth::AttentionRuns attention(problem.cost, plan.program);
  EXPECT_EQ(attention.found().size(), 4u);
  EXPECT_GE(std::ranges::count(attention.found(), 2u, [](const auto& run) { return run.mixed.size(); }), 3)
      << "but in the last layer, whose gradient comes at once";
  EXPECT_LT(arena_bytes(reference, plan, cluster, 1), 0.65 * double(once));
  train_and_compare(reference, plan, cluster, 2);
}

/// Four layers of attention whose learnt biases are added to all samples' scores.
Program biased_attention() {
  const auto model = [] {
    const int64_t batch = 6, tokens = 24, heads = 2, features = 4;
    Tensor x = parameter("x", {batch, tokens, heads, features}, normal(1));
    for (int layer = 0; layer < 4; ++layer) {
      Tensor bias = parameter(fmt::format("bias{}", layer), {heads, tokens, tokens}, normal(1));
      Tensor keys = x * parameter(fmt::format("scale{}", layer), {heads, features}, normal(1));
      Tensor weights = softmax(einsum("bthd,bshd->bhts", x, keys) + bias, -1);
      x = x + tanh(einsum("bhts,bshd->bthd", weights, x * 0.5));
    }
    minimize(mean(x * x), SGD{.learning_rate = 0.5, .momentum = 0});
  };
  return trace_model("biased.cpp", model, {});
}

/// No kernel adds up the bias's gradient: scores are made again for it and stored then, one layer's at a time.
TEST(CudaMemory, ScoresWhoseBiasIsLearntAreStoredForTheGradientAlone) {
  const Program reference = biased_attention();
  const Cluster cluster = cuda_cluster({1, 1});
  Plan plan = data_parallel_plan(reference, cluster, RatioRule::even);
  const synth::Problem problem(reference, cluster);
  const synth::Shares even = synth::common_shares(problem.classes, {{0.5, 0.5}});
  std::vector<ValueId> again;
  for (const synth::Absence& absence : synth::recompute_order(problem, plan.program, 1)) again.push_back(absence.value);
  for (const SpmdProgram& program : {plan.program, synth::with_recomputed(problem, plan.program, again)}) {
    plan.program = program;
    const synth::AttentionRuns attention(problem.cost, program);
    ASSERT_EQ(attention.found().size(), 4u);
    for (const synth::AttentionRun& run : attention.found()) {
      EXPECT_FALSE(run.stored.empty());
      for (const ValueId value : run.stored) EXPECT_LT(synth::made_at(problem, program)[size_t(value)], run.first);
    }
    const double planned = double(synth::peak_memory(problem, even, program)[0]);
    const double arena = double(arena_bytes(reference, plan, cluster, 0));
    const MemoryBreakdown peak = memory_at_peak(reference, program, cluster)[0];
    EXPECT_EQ(planned, double(peak.total()));
    const int64_t weights = 6 / 2 * 2 * 24 * 24 * int64_t(sizeof(float));  // of a device, in one layer
    EXPECT_GE(peak.bytes[size_t(MemoryUse::workspace)], weights);
    // Scores of the other three layers, kept, would be a fifth of the arena.
    EXPECT_NEAR(planned, arena, 0.1 * arena);
    train_and_compare(reference, plan, cluster, 2);
  }
}

/// Sums of gradients stay while their transfers are under way: no more of them than there is memory for.
TEST(CudaMemory, TransfersUnderWayAreBoundedByIt) {
  const Program reference = layered_gpt();
  Cluster cluster = cuda_cluster({1, 2});
  const Plan plan = data_parallel_plan(reference, cluster, RatioRule::proportional);
  const int64_t most = arena_bytes(reference, plan, cluster, 0);
  cluster.devices[0].memory_bytes = 1;  // as little as possible
  const int64_t least = arena_bytes(reference, plan, cluster, 0);
  ASSERT_LT(least, most);
  for (int64_t limit : {most - 1, (least + most) / 2, least}) {
    cluster.devices[0].memory_bytes = limit;
    EXPECT_LE(arena_bytes(reference, plan, cluster, 0), limit);
  }
  train_and_compare(reference, plan, cluster, 2);
}

class CudaTraining : public ::testing::TestWithParam<Case> {};

TEST_P(CudaTraining, MlpEqualsTheInterpreter) {
  Program reference = small_mlp();
  Cluster cluster = cuda_cluster(GetParam().speeds);
  train_and_compare(reference, GetParam().plan(reference, cluster), cluster, 3);
}

TEST_P(CudaTraining, GptEqualsTheInterpreter) {
  Program reference = small_gpt();
  Cluster cluster = cuda_cluster(GetParam().speeds);
  train_and_compare(reference, GetParam().plan(reference, cluster), cluster, 3);
}

TEST_P(CudaTraining, NvrtcAcceptsAllKernelsOfAGpt) {
  if (!cuda_toolkit().available) GTEST_SKIP() << "no NVRTC here: " << cuda_toolkit().problem;
  Program reference = trace_model("gpt.cpp", gpt::model, {{"layers", "1"}, {"width", "64"}, {"dropout", "0.1"}});
  Cluster cluster = cuda_cluster(GetParam().speeds);
  Plan plan = GetParam().plan(reference, cluster);
  DeviceProgram device = generate(reference, plan.program, cluster, 0);
  std::vector<std::string> architectures = {"sm_80"};
  if (GetParam().name == "one") architectures = {"sm_75", "sm_80", "sm_90"};
  for (const std::string& architecture : architectures) {
    CudaCode code = compile_cuda(device.files.at(1).text, device.files.at(1).name, architecture);
    EXPECT_EQ(code.status, CudaCompileStatus::compiled) << code.log;
    EXPECT_EQ(code.log, "");
  }
}

INSTANTIATE_TEST_SUITE_P(Plans, CudaTraining, ::testing::ValuesIn(cases),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace hetsynth::testing_support
