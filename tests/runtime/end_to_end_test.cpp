// From model to losses: generated, compiled and run on several ranks, against the float64 reference interpreter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "dsl/ir/interpreter.h"
#include "runtime/launch.h"
#include "runtime/training/text_generation.h"
#include "runtime/training/train.h"
#include "synth/planner/synthesize.h"
#include "tests/runtime/models.h"
#include "tests/runtime/plans.h"
#include "tests/runtime/temporary_folder.h"
#include "tests/support/pipelined_plan.h"

namespace hetsynth {
namespace {

using namespace testing;  // NOLINT: fixtures of this folder

constexpr int64_t steps = 20;
constexpr uint64_t seed = 11;

/// A program with its data and what the interpreter says of it.
struct Reference {
  /// `path`: of the data; "text" is one that is made here.
  explicit Reference(Program traced, const std::string& path = "text") : program(std::move(traced)) {
    std::string text;
    for (int i = 0; i < 3000; ++i) text += "the quick brown fox jumps over the lazy dog. "[(i * i / 7) % 45];
    folder.write("text", text);
    data = open_data(program, {path == "text" ? folder.path("text") : path, seed});
    leaves = initial_values(program, seed);
    for (int64_t step = 0; step < steps; ++step) {
      for (auto& [node, value] : whole_batch(program, *data, step)) leaves[node] = value;
      const std::vector<Array> values = interpret(program, leaves, {seed, step});
      losses.push_back(values[static_cast<size_t>(program.loss)].values[0]);
      for (const Update& update : program.updates) leaves[update.target] = values[static_cast<size_t>(update.value)];
    }
  }
  TemporaryFolder folder;
  Program program;
  std::unique_ptr<BatchSource> data;
  std::vector<double> losses;
  Bindings leaves;  ///< after the last step
};

Reference& mlp() {
  static Reference reference(small_mlp());
  return reference;
}

Reference& gpt() {
  static Reference reference(small_gpt());
  return reference;
}

Reference& recurrent() {
  static Reference reference(small_recurrent());
  return reference;
}

Reference& cnn() {
  static Reference reference(small_cnn(), "");
  return reference;
}

/// Inputs with names of its own, from files and made up.
Reference& tagger() {
  static Reference reference(small_tagger(), tagger_files());
  return reference;
}
Reference& synthetic_tagger() {
  static Reference reference(small_tagger(), "");
  return reference;
}

std::unique_ptr<Executor> start(const Program& program, const Plan& plan, const Cluster& cluster,
                                int optimization = 1) {
  LaunchOptions options;
  options.executor.seed = seed;
  options.executor.threads.threads_per_rank = 1;
  options.optimization = optimization;  // the same code in less time; the examples and benchmarks run at 3
  return launch(program, plan.program, ranks_of(plan, cluster), options);
}

/// Losses are near ln 256 = 5.5: one rounding to float32 is 2.4e-7. Sums have up to 256 terms and errors of steps add
/// up; the most seen over all plans below is 8e-7. A wrong plan is off by 1e-3 and more.
constexpr double loss_bound = 5e-6;
/// Parameters are of size 0.1 to 1 and take 20 updates, each rounded: the most seen is 9e-7.
constexpr double parameter_bound = 5e-6;

void expect_same_training(Reference& reference, const Plan& plan, const Cluster& cluster, int optimization = 1) {
  const auto executor = start(reference.program, plan, cluster, optimization);
  TrainOptions options;
  options.steps = steps;
  const TrainReport report = train(*executor, *reference.data, options);
  ASSERT_EQ(report.losses.size(), static_cast<size_t>(steps));
  double worst = 0;
  for (size_t i = 0; i < report.losses.size(); ++i)
    worst = std::max(worst, std::fabs(report.losses[i] - reference.losses[i]));
  EXPECT_LT(worst, loss_bound) << text(plan.program, reference.program);
  for (const Node& node : reference.program.nodes) {
    if (node.kind != NodeKind::parameter) continue;
    const Array got = to_array(executor->read(node.id));
    double difference = 0;
    for (size_t i = 0; i < got.values.size(); ++i) {
      difference = std::max(difference, std::fabs(got.values[i] - reference.leaves.at(node.id).values[i]));
    }
    EXPECT_LT(difference, parameter_bound) << node.name;
  }
}

std::vector<double> even(int ranks) { return std::vector<double>(static_cast<size_t>(ranks), 1.0); }
std::vector<double> uneven(int ranks) {
  const std::vector<double> all{3, 1, 2, 0.5, 1.5};
  return {all.begin(), all.begin() + ranks};
}

class Training : public ::testing::TestWithParam<int> {
 protected:
  Cluster cluster() const { return cpu_cluster(uneven(GetParam())); }
};
INSTANTIATE_TEST_SUITE_P(Ranks, Training, ::testing::Values(2, 3, 5), ::testing::PrintToStringParamName());

TEST(TrainingAlone, OneRankFollowsTheInterpreter) {
  const Cluster cluster = cpu_cluster({1});
  expect_same_training(mlp(), single_device_plan(mlp().program, cluster), cluster);
  expect_same_training(gpt(), single_device_plan(gpt().program, cluster), cluster);
  expect_same_training(cnn(), single_device_plan(cnn().program, cluster), cluster);
  expect_same_training(tagger(), single_device_plan(tagger().program, cluster), cluster);
  expect_same_training(synthetic_tagger(), single_device_plan(tagger().program, cluster), cluster);
}

TEST(TrainingAlone, TheLossFalls) {
  EXPECT_LT(mlp().losses.back(), mlp().losses.front() - 1);
  EXPECT_LT(gpt().losses.back(), gpt().losses.front() - 1);
  EXPECT_LT(recurrent().losses.back(), recurrent().losses.front() - 1);
  EXPECT_LT(cnn().losses.back(), cnn().losses.front());
  EXPECT_LT(tagger().losses.back(), tagger().losses.front() - 0.2);
}

TEST_P(Training, EvenDataParallel) {
  expect_same_training(mlp(), data_parallel_plan(mlp().program, cluster(), RatioRule::even), cluster());
  expect_same_training(gpt(), data_parallel_plan(gpt().program, cluster(), RatioRule::even), cluster());
}

TEST_P(Training, ProportionalDataParallel) {
  expect_same_training(mlp(), data_parallel_plan(mlp().program, cluster(), RatioRule::proportional), cluster());
  expect_same_training(gpt(), data_parallel_plan(gpt().program, cluster(), RatioRule::proportional), cluster());
  expect_same_training(cnn(), data_parallel_plan(cnn().program, cluster(), RatioRule::proportional), cluster());
}

TEST_P(Training, TensorParallelEvenAndUneven) {
  for (const auto& fractions : {even(GetParam()), uneven(GetParam())}) {
    expect_same_training(mlp(), split_plan(mlp().program, cluster(), "w1", 1, fractions), cluster());
    expect_same_training(gpt(), split_plan(gpt().program, cluster(), "up", 1, fractions), cluster());
  }
}

TEST_P(Training, TensorParallelAsPlanned) {
  expect_same_training(mlp(), tensor_parallel_plan(mlp().program, cluster(), RatioRule::proportional), cluster());
  expect_same_training(gpt(), tensor_parallel_plan(gpt().program, cluster(), RatioRule::proportional), cluster());
}

/// The plan on `stages` times as many devices, of which every group of as many runs a part of the layers.
Plan pipelined(const Program& program, Plan plan, const Cluster& cluster, int stages) {
  plan.program = test::pipelined_plan(program, plan.program, stages);
  plan.devices = identify_plan(program, cluster).devices;
  return plan;
}

TEST(TrainingAlone, LayersOnStages) {
  for (int stages : {2, 3}) {
    const Cluster one = cpu_cluster({1}), many = cpu_cluster(even(stages));
    for (Reference* reference : {&mlp(), &gpt(), &cnn(), &recurrent()}) {
      const Program& program = reference->program;
      expect_same_training(*reference, pipelined(program, single_device_plan(program, one), many, stages), many);
    }
  }
}

TEST(TrainingAlone, LayersOnStagesOfUnequalDevices) {
  const Cluster two = cpu_cluster({3, 1}), four = cpu_cluster({3, 1, 3, 1});
  for (Reference* reference : {&mlp(), &gpt()}) {
    const Program& program = reference->program;
    expect_same_training(*reference,
                         pipelined(program, data_parallel_plan(program, two, RatioRule::proportional), four, 2), four);
    expect_same_training(
        *reference, pipelined(program, tensor_parallel_plan(program, two, RatioRule::proportional), four, 2), four);
  }
}

TEST_P(Training, RecurrentLayers) {
  const Program& program = recurrent().program;
  expect_same_training(recurrent(), data_parallel_plan(program, cluster(), RatioRule::proportional), cluster());
  expect_same_training(recurrent(), split_plan(program, cluster(), "lstm.recurrent", 2, uneven(GetParam())), cluster());
  expect_same_training(recurrent(), synthesize(program, cluster(), {.time_limit_seconds = 3, .progress = {}}),
                       cluster());
}

TEST_P(Training, InputsWithNamesOfTheModelsOwn) {
  const Program& program = tagger().program;
  for (Reference* reference : {&tagger(), &synthetic_tagger()}) {
    expect_same_training(*reference, data_parallel_plan(program, cluster(), RatioRule::proportional), cluster());
    for (uint64_t draw = 0; draw < 3; ++draw) {
      SCOPED_TRACE(draw);
      expect_same_training(*reference, random_plan(program, cluster(), uneven(GetParam()), draw), cluster(), 0);
    }
  }
}

TEST_P(Training, HeadAndVocabularyParallel) {
  expect_same_training(gpt(), split_plan(gpt().program, cluster(), "query", 1, uneven(GetParam())), cluster());
  expect_same_training(gpt(), split_plan(gpt().program, cluster(), "wte", 0, uneven(GetParam())), cluster());
}

TEST_P(Training, ChannelParallelConvolution) {
  expect_same_training(cnn(), split_plan(cnn().program, cluster(), "point", 0, uneven(GetParam())), cluster());
  expect_same_training(cnn(), split_plan(cnn().program, cluster(), "point", 1, uneven(GetParam())), cluster());
}

TEST_P(Training, Synthesized) {
  SynthesisOptions options;
  options.time_limit_seconds = 3;  // the best so far will do: whatever is found must train the same
  expect_same_training(mlp(), synthesize(mlp().program, cluster(), options), cluster());
  expect_same_training(gpt(), synthesize(gpt().program, cluster(), options), cluster());
  expect_same_training(cnn(), synthesize(cnn().program, cluster(), options), cluster());
}

// Hundreds of conversions and little to fuse: long programs, compiled without optimisation to save time.
TEST_P(Training, RandomPlans) {
  for (uint64_t draw = 0; draw < 2; ++draw) {
    SCOPED_TRACE(draw);
    expect_same_training(mlp(), random_plan(mlp().program, cluster(), uneven(GetParam()), draw), cluster(), 0);
  }
  expect_same_training(gpt(), random_plan(gpt().program, cluster(), uneven(GetParam()), 0), cluster(), 0);
  expect_same_training(cnn(), random_plan(cnn().program, cluster(), uneven(GetParam()), 0), cluster(), 0);
}

TEST(TrainingAlone, SameSeedAndPlanGiveTheSameBits) {
  const Cluster cluster = cpu_cluster({2, 1, 1});
  const Plan plan = data_parallel_plan(gpt().program, cluster, RatioRule::proportional);
  TrainOptions options;
  options.steps = 10;
  std::vector<std::vector<double>> losses;
  for (int run = 0; run < 2; ++run)
    losses.push_back(train(*start(gpt().program, plan, cluster), *gpt().data, options).losses);
  EXPECT_EQ(losses[0], losses[1]);
}

/// The trained parameters of the forward pass, by name.
Bindings trained_leaves(const Executor& executor, const Program& forward) {
  Bindings out;
  for (const Node& node : forward.nodes)
    for (const Node& trained : executor.reference().nodes)
      if (node.kind == NodeKind::parameter && trained.name == node.name)
        out[node.id] = to_array(executor.read(trained.id));
  return out;
}

/// What the reference interpreter finds the likeliest, byte after byte, in float64.
std::string likeliest_text(const Program& forward, Bindings leaves, const std::string& prompt, int bytes) {
  const LanguageModel model = language_model(forward);
  std::string text = prompt;
  std::optional<int64_t> begin;
  for (int i = 0; i < bytes; ++i) {
    begin = window_begin(begin, int64_t(text.size()), model.length);
    Array& window = leaves[model.tokens] = Array({1, model.length});
    for (size_t at = size_t(*begin); at < text.size(); ++at)
      window.values[at - size_t(*begin)] = double(static_cast<unsigned char>(text[at]));
    const std::vector<double> logits = interpret(forward, leaves, {})[size_t(model.logits)].values;
    const auto row = logits.begin() + (int64_t(text.size()) - 1 - *begin) * model.classes;
    text += char(std::max_element(row, row + model.classes) - row);
  }
  return text.substr(prompt.size());
}

TEST(TrainingAlone, TrainedParametersAreSampledFrom) {
  const Cluster cluster = cpu_cluster({2, 1});
  const auto executor = start(gpt().program, data_parallel_plan(gpt().program, cluster), cluster);
  TrainOptions options;
  options.steps = steps;
  train(*executor, *gpt().data, options);

  const Program forward = small_gpt_forward();
  const RememberingProgram remembering = remembering_program(forward);
  ASSERT_TRUE(remembering.program) << remembering.reason;
  const Bindings trained = trained_leaves(*executor, forward);
  const Cluster one = cpu_cluster({1}), three = cpu_cluster({3, 1, 2});
  std::vector<std::string> drawn, greedy;
  for (const GenerationProgram& program : {window_program(forward), *remembering.program}) {
    const Program& p = program.program;
    for (const auto& [plan, cluster] :
         {std::pair(single_device_plan(p, one), one), std::pair(random_plan(p, three, {3, 1, 2}, 1), three),
          std::pair(random_plan(p, three, {1, 5, 2}, 2), three)}) {
      const auto sampler = start(p, plan, cluster);
      for (const Node& node : forward.nodes)
        for (const Node& here : p.nodes)
          if (node.kind == NodeKind::parameter && here.name == node.name)
            sampler->write(here.id, to_host_tensor(trained.at(node.id), DType::f32));
      drawn.push_back(sample_text(*sampler, program, {"the ", 24, 0.5, 0}));
      greedy.push_back(sample_text(*sampler, program, {"the ", 24, 0, 0}));
    }
  }
  EXPECT_EQ(drawn[0].size(), 24u);
  // Letters and spaces are all the model has seen; twenty steps are enough to prefer them to the other 229 bytes.
  EXPECT_TRUE(std::ranges::all_of(drawn[0], [](char c) { return c == ' ' || c == '.' || (c >= 'a' && c <= 'z'); }))
      << printable(drawn[0]);
  // Read anew for every byte or remembered, on one device or on three.
  EXPECT_THAT(drawn, ::testing::Each(drawn[0]));
  EXPECT_THAT(greedy, ::testing::Each(likeliest_text(forward, trained, "the ", 24)));
}

TEST(Launch, PlansRunOnTheDevicesTheyName) {
  Cluster cluster = cpu_cluster({1, 2, 3});
  const Plan plan = single_device_plan(mlp().program, cluster);
  ASSERT_EQ(plan.devices.size(), 1u);
  EXPECT_EQ(ranks_of(plan, cluster).devices[0].name, cluster.devices[2].name);  // the fastest
  cluster.devices.pop_back();
  try {
    ranks_of(plan, cluster);
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("a device that the cluster does not have"));
  }
}

TEST(Launch, SecondLaunchTakesTheCodeFromTheCache) {
  const Cluster cluster = cpu_cluster({1, 1});
  const Plan plan = data_parallel_plan(mlp().program, cluster);
  LaunchOptions options;
  options.optimization = 1;
  launch(mlp().program, plan.program, cluster, options);
  LaunchReport report;
  launch(mlp().program, plan.program, cluster, options, &report);
  EXPECT_EQ(report.from_cache, 2);
  EXPECT_EQ(report.compiled, 0);
}

TEST(Launch, CudaDevicesAreRefusedBeforeAnythingIsCompiled) {
  Cluster cluster = cpu_cluster({1, 1});
  const Plan plan = data_parallel_plan(mlp().program, cluster);
  cluster.devices[1].kind = DeviceKind::cuda;
  try {
    launch(mlp().program, plan.program, cluster, {});
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::failure);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("is a cuda device"));
  }
}

}  // namespace
}  // namespace hetsynth
