// Models that are made of more than parameters trained alike: frozen bases, averages of weights, noise, data of the
// model, metrics, losses of two groups of parameters. Planned, proved, checked, and trained on one rank and on three
// uneven ones as the interpreter does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "dsl/include/hetsynth/hetsynth.h"
#include "dsl/ir/interpreter.h"
#include "dsl/transform/differentiate.h"
#include "runtime/launch.h"
#include "runtime/training/checkpoint.h"
#include "runtime/training/generated_check.h"
#include "runtime/training/train.h"
#include "synth/planner/synthesize.h"
#include "tests/runtime/plans.h"
#include "tests/runtime/temporary_folder.h"
#include "verify/verify.h"

namespace hetsynth {
namespace {

using namespace testing;  // NOLINT: fixtures of this folder

constexpr uint64_t seed = 11;
constexpr int64_t steps = 12;
/// One rounding of a loss near 1 is 1e-7; a wrong plan, or other draws, are off by 1e-3 and more.
constexpr double bound = 1e-5;

Program traced(const std::function<void()>& model, const std::map<std::string, std::string>& settings = {}) {
  Trace trace("model.cpp", settings);
  run_builder(trace, model);
  return differentiate(trace);
}

/// A variational autoencoder (Kingma and Welling 2014) with an average of its decoder's weights.
void autoencoder() {
  const int64_t batch = 12, features = 10, hidden = 8, code = 4;
  auto [x, labels] = synthetic_batch(batch, features, 3);
  Tensor h = tanh(matmul(x, parameter("encode", {features, hidden}, normal(0.3))));
  Tensor mean_of_code = matmul(h, parameter("mean", {hidden, code}, normal(0.3)));
  Tensor log_variance = matmul(h, parameter("log_variance", {hidden, code}, normal(0.1)));
  Tensor z = mean_of_code + exp(0.5 * log_variance) * random_normal({batch, code});
  Tensor w = parameter("decode", {code, features}, normal(0.3));
  Tensor average = state("decode.average", w);
  update(average, 0.9 * average + 0.1 * w);
  Tensor error = mean_squared_error(matmul(z, w), x);
  Tensor divergence = 0.5 * mean(square(mean_of_code) + exp(log_variance) - log_variance - 1.0);
  metric("error", error);
  metric("divergence", divergence);
  minimize(error + 0.1 * divergence, AdamW{.learning_rate = 0.02});
}

/// Adapters of low rank (Hu et al. 2022) beside a base that stays, decayed and sped up on their own.
void adapters() {
  const int64_t batch = 12, features = 10, classes = 6, rank = 2;
  auto [x, labels] = synthetic_batch(batch, features, classes);
  Tensor base = parameter("base", {features, features}, normal(0.4));
  Tensor bias = parameter("base.bias", {features}, normal(0.1));
  Tensor down = parameter("down", {features, rank}, normal(0.3), {.learning_rate_scale = 2, .weight_decay = 0.0});
  Tensor up = parameter("up", {rank, features}, zeros(), {.learning_rate_scale = 2});
  Tensor h = gelu(matmul(x, base) + einsum("bi,ir,ro->bo", x, down, up) + bias);
  Tensor logits = matmul(h, parameter("head", {features, classes}, normal(0.3), {.weight_decay = 0.05}));
  metric("accuracy", mean(argmax(logits, -1) == labels));
  minimize(cross_entropy(logits, labels), AdamW{.learning_rate = 0.02, .clip_norm = 1});
}

/// A student that follows a teacher which is not trained (Hinton et al. 2015).
void distillation() {
  const int64_t batch = 12, features = 10, classes = 6;
  auto [x, labels] = synthetic_batch(batch, features, classes);
  Tensor t = tanh(matmul(x, parameter("teacher.1", {features, 16}, normal(0.5), {.trainable = false})));
  Tensor target = softmax(matmul(t, parameter("teacher.2", {16, classes}, normal(0.5), {.trainable = false})), -1);
  Tensor h = tanh(matmul(x, parameter("student.1", {features, 8}, normal(0.5))));
  Tensor logits = matmul(h, parameter("student.2", {8, classes}, normal(0.5)));
  Tensor soft = -mean(sum(target * log_softmax(logits, -1), -1));
  metric("soft", soft);
  Tensor loss = 0.7 * soft;
  loss += 0.3 * cross_entropy(logits, labels);
  minimize(loss, SGD{.learning_rate = 0.1, .momentum = 0.9});
}

/// A U-Net of one level (Ronneberger et al. 2015) that takes noise off images.
void u_net() {
  const int64_t batch = 6, size = 8;
  auto [image, labels] = synthetic_images(batch, 2, size, size, 3);
  Tensor noisy = image + random_uniform(image.shape(), -0.5, 0.5);
  auto block = [](Tensor x, const std::string& name, int64_t outputs) {
    return relu(conv2d(x, parameter(name, {outputs, x.size(1), 3, 3}, normal(0.2)), {.padding = 1}));
  };
  Tensor outer = block(noisy, "outer", 4), inner = block(max_pool2d(outer, 2), "inner", 6);
  Tensor smooth = upsample(inner, 2, Interpolation::bilinear), coarse = interpolate(inner, {size, size});
  Tensor joined = block(concat({outer, smooth, coarse}, 1), "join", 4);
  Tensor out = conv2d(joined, parameter("last", {2, 4, 1, 1}, normal(0.2)));
  minimize(mean_squared_error(out, image), AdamW{.learning_rate = 0.01});
}

/// Attention along the edges of a graph (Velickovic et al. 2018), which is data of the model.
void graph_attention() {
  const int64_t batch = 6, nodes = 5, features = 4, hidden = 6, classes = 3;
  auto [x, labels] = synthetic_batch(batch, nodes * features, classes);
  Tensor of_nodes = reshape(x, {batch, nodes, features});
  Tensor edges = constant({{1.0, 1.0, 0.0, 0.0, 1.0},
                           {1.0, 1.0, 1.0, 0.0, 0.0},
                           {0.0, 1.0, 1.0, 1.0, 0.0},
                           {0.0, 0.0, 1.0, 1.0, 1.0},
                           {1.0, 0.0, 0.0, 1.0, 1.0}});
  Tensor kind = constant({0, 1, 1, 0, 1});
  Tensor h = einsum("bnf,fh->bnh", of_nodes, parameter("w", {features, hidden}, normal(0.4)));
  h += embedding(parameter("kinds", {3, hidden}, normal(0.4)), kind + 1);
  Tensor from = einsum("bnh,h->bn", h, parameter("from", {hidden}, normal(0.4)));
  Tensor to = einsum("bnh,h->bn", h, parameter("to", {hidden}, normal(0.4)));
  Tensor scores = leaky_relu(reshape(from, {batch, nodes, 1}) + reshape(to, {batch, 1, nodes}), 0.2);
  Tensor weights = softmax(where(edges > 0.5, scores, -1e9), -1);
  Tensor gathered = einsum("bnm,bmh->bnh", weights, h);
  Tensor best = sort(gathered, 1, /*descending=*/true).values;
  Tensor pooled =
      concat({logsumexp(gathered, 1), min(gathered, 1), reshape(slice(best, 1, 0, 1), {batch, hidden})}, -1);
  Tensor logits = matmul(pooled, parameter("head", {3 * hidden, classes}, normal(0.3)));
  minimize(cross_entropy(logits, labels), AdamW{.learning_rate = 0.02});
}

/// Tokens go to three of five experts; a sequence convolved along its positions, with running products.
void sequences() {
  const int64_t batch = 4, length = 6, width = 4, experts = 5;
  auto [tokens, labels] = labelled_tokens(batch, length, 16, 3);
  Tensor x = embedding(parameter("table", {16, width}, normal(0.5)), tokens);
  Routing routing = top_k_gating(einsum("btc,ce->bte", x, parameter("gate", {width, experts}, normal(0.5))), 3, 2.0);
  Tensor queues = expert_dispatch(x, routing);
  Tensor answers = tanh(einsum("bepc,ecf->bepf", queues, parameter("experts", {experts, width, width}, normal(0.5))));
  x += expert_combine(answers, routing);
  Tensor y = conv1d(transpose(x, {0, 2, 1}), parameter("taps", {width, width, 3}, normal(0.4)), {.padding = 1});
  Tensor kept = cumprod(sigmoid(y), -1);
  Tensor logits = matmul(mean(stack({kept, y}, 1), {1, 3}), parameter("head", {width, 3}, normal(0.5)));
  minimize(cross_entropy(logits, labels) + 0.01 * routing.balance_loss, AdamW{.learning_rate = 0.02});
}

/// Points that a generator makes of noise, and a discriminator that tells them from the data (Goodfellow et al. 2014).
void adversaries(int64_t d_steps, int64_t g_steps) {
  const int64_t batch = 12, features = 4, hidden = 8;
  auto [x, labels] = synthetic_batch(batch, features, 3);
  Tensor g1 = parameter("g.1", {3, hidden}, normal(0.5)), g2 = parameter("g.2", {hidden, features}, normal(0.5));
  Tensor made = matmul(tanh(matmul(random_normal({batch, 3}), g1)), g2);
  Tensor d1 = parameter("d.1", {features, hidden}, normal(0.5)), d2 = parameter("d.2", {hidden, 1}, normal(0.5));
  const auto judge = [&](Tensor of) { return reshape(matmul(leaky_relu(matmul(of, d1), 0.2), d2), {batch}); };
  Tensor of_data = judge(x), of_made = judge(made), yes = full({batch}, 1.0), no = full({batch}, 0.0);
  minimize(binary_cross_entropy_with_logits(of_data, yes) + binary_cross_entropy_with_logits(of_made, no),
           Adam{.learning_rate = 0.01, .beta1 = 0.5, .schedule = cosine_schedule(20)},
           {.name = "discriminator", .parameters = "d\\.", .steps = d_steps});
  minimize(binary_cross_entropy_with_logits(of_made, yes), SGD{.learning_rate = 0.1, .momentum = 0.5, .clip_norm = 1},
           {.name = "generator", .parameters = "g\\.", .steps = g_steps});
}
void two_losses() { adversaries(0, 0); }
void two_losses_in_turn() { adversaries(3, 2); }

/// What the interpreter says of a run.
struct Reference {
  explicit Reference(const Program& program)
      : data(open_data(program, {"", seed})), leaves(initial_values(program, seed)) {
    for (int64_t step = 0; step < steps; ++step) {
      for (auto& [node, value] : whole_batch(program, *data, step)) leaves[node] = value;
      const std::vector<Array> values = interpret(program, leaves, {seed, step});
      losses.push_back(values[static_cast<size_t>(program.loss)].values[0]);
      metrics.clear();
      for (const NamedOutput& output : program.outputs)
        if (output.metric) metrics.emplace_back(output.name, values[static_cast<size_t>(output.node)].values[0]);
      for (const Update& update : program.updates) leaves[update.target] = values[static_cast<size_t>(update.value)];
    }
  }
  std::unique_ptr<BatchSource> data;
  Bindings leaves;  ///< after the last step
  std::vector<double> losses;
  std::vector<std::pair<std::string, double>> metrics;  ///< of the last step
};

std::unique_ptr<Executor> start(const Program& program, const Plan& plan, const Cluster& cluster) {
  LaunchOptions options;
  options.executor.seed = seed;
  options.executor.threads.threads_per_rank = 1;
  options.optimization = 1;
  return launch(program, plan.program, ranks_of(plan, cluster), options);
}

void expect_leaves(const Program& program, const Executor& executor, const Bindings& wanted) {
  for (const Node& node : program.nodes) {
    if (node.kind != NodeKind::parameter && node.kind != NodeKind::state) continue;
    const HostTensor tensor = executor.read(node.id);
    if (tensor.type.dtype != DType::f32) continue;
    const Array got = to_array(tensor);
    for (size_t i = 0; i < got.values.size(); ++i)
      ASSERT_NEAR(got.values[i], wanted.at(node.id).values[i], bound) << node.name << " element " << i;
  }
}

void expect_same_training(const Program& program, const Plan& plan, const Cluster& cluster) {
  const Verification proof = verify(program, plan.program);
  EXPECT_EQ(proof.verdict, Verdict::proved) << proof.summary;
  const Reference reference(program);
  const auto executor = start(program, plan, cluster);
  StepReport last;
  for (int64_t step = 0; step < steps; ++step) {
    last = executor->step(step, *reference.data);
    EXPECT_NEAR(last.loss, reference.losses[static_cast<size_t>(step)], bound) << "step " << step;
  }
  ASSERT_EQ(last.metrics.size(), reference.metrics.size());
  for (size_t i = 0; i < last.metrics.size(); ++i) {
    EXPECT_EQ(last.metrics[i].first, reference.metrics[i].first);
    EXPECT_NEAR(last.metrics[i].second, reference.metrics[i].second, bound) << last.metrics[i].first;
  }
  expect_leaves(program, *executor, reference.leaves);
}

struct Model {
  const char* name;
  void (*build)();
};
void PrintTo(const Model& model, std::ostream* out) { *out << model.name; }

class TrainingTools : public ::testing::TestWithParam<Model> {};
INSTANTIATE_TEST_SUITE_P(Models, TrainingTools,
                         ::testing::Values(Model{"autoencoder", autoencoder}, Model{"adapters", adapters},
                                           Model{"distillation", distillation}, Model{"u_net", u_net},
                                           Model{"graph_attention", graph_attention}, Model{"sequences", sequences},
                                           Model{"two_losses", two_losses},
                                           Model{"two_losses_in_turn", two_losses_in_turn}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(TrainingTools, OneRankFollowsTheInterpreter) {
  const Program program = traced(GetParam().build);
  const Cluster one = cpu_cluster({1});
  expect_same_training(program, single_device_plan(program, one), one);
}

TEST_P(TrainingTools, ThreeUnevenRanksFollowTheInterpreter) {
  const Program program = traced(GetParam().build);
  const Cluster three = cpu_cluster({3, 1, 2});
  SynthesisOptions options;
  options.time_limit_seconds = 3;
  expect_same_training(program, synthesize(program, three, options), three);
  expect_same_training(program, data_parallel_plan(program, three, RatioRule::proportional), three);
}

TEST_P(TrainingTools, SourceDoesWhatThePlanSays) {
  const Program program = traced(GetParam().build);
  const Cluster three = cpu_cluster({3, 1, 2});
  const Plan plan = data_parallel_plan(program, three, RatioRule::proportional);
  std::vector<DeviceProgram> programs;
  for (int rank = 0; rank < 3; ++rank) programs.push_back(generate(program, plan.program, three, rank));
  const GeneratedCheck check = check_generated(program, plan.program, programs);
  EXPECT_EQ(check.verdict, Verdict::proved) << check.worst().summary;
}

TEST(FrozenBase, CostsNoCommunicationAndNoState) {
  const auto collectives_of = [](const Program& program, const Cluster& cluster) {
    int count = 0;
    const Plan plan = data_parallel_plan(program, cluster, RatioRule::even);
    for (const Instruction& i : plan.program.instructions)
      if (communicates(i.opcode) &&
          program[plan.program.values[size_t(i.result)].node].name.find("base") != std::string::npos)
        ++count;
    return count;
  };
  const Cluster two = cpu_cluster({1, 1});
  const Program all = traced(adapters), frozen = traced(adapters, {{"freeze", "base"}});
  EXPECT_GT(collectives_of(all, two), 0);
  EXPECT_EQ(collectives_of(frozen, two), 0);
  for (const Node& node : frozen.nodes) EXPECT_EQ(node.name.find("base.m"), std::string::npos) << node.name;
  expect_same_training(frozen, data_parallel_plan(frozen, two, RatioRule::even), two);
}

TEST(Checkpoints, KeepFrozenParametersAndStatesButNoData) {
  const TemporaryFolder folder;
  const Cluster one = cpu_cluster({1}), two = cpu_cluster({1, 2});
  for (auto* model : {distillation, autoencoder, graph_attention}) {
    const Program program = traced(model);
    const Reference reference(program);
    const auto executor = start(program, single_device_plan(program, one), one);
    TrainOptions options;
    options.steps = steps;
    train(*executor, *reference.data, options);
    const std::string path = folder.path("checkpoint");
    save_checkpoint(path, *executor, {});
    const auto fresh = start(program, data_parallel_plan(program, two, RatioRule::proportional), two);
    load_checkpoint(path, *fresh);
    expect_leaves(program, *fresh, reference.leaves);
  }
}

}  // namespace
}  // namespace hetsynth
