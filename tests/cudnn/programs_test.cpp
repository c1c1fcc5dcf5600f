// Generated programs whose attention cuDNN carries out: where that is so, that steps with it are right on doubles on
// one and several ranks, that the check of generated source follows the calls, and that seeded faults in them are
// found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "codegen/interface/device_program.h"
#include "dsl/base/error.h"
#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "runtime/cuda/cuda_backend.h"
#include "runtime/training/generated_check.h"
#include "tests/support/cuda/after_step.h"
#include "tests/support/propagated_plan.h"

namespace hetsynth::testing_support {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

struct Form {
  int64_t batch = 4, heads = 2, key_heads = 2, queries = 16, keys = 16, features = 8;
  bool causal = true, drops = false, biased = false;
  std::string precision = "bf16";
  double scale = 0.3;
};

/// Self-attention between projections of samples; the loss is the mean square of its result.
Program attends(const Form& f) {
  Trace trace("attends.cpp");
  run_builder(trace, [&] {
    mixed_precision(f.precision);
    const int64_t width = 16;
    Tensor x = parameter("x", {f.batch, f.queries, width}, normal(1.0));
    Tensor y = f.keys == f.queries ? x : parameter("y", {f.batch, f.keys, width}, normal(1.0));
    const int64_t group = f.heads / f.key_heads;
    Tensor q = einsum("btc,cgrd->btgrd", x, parameter("wq", {width, f.key_heads, group, f.features}, normal(0.3)));
    Tensor k = einsum("bsc,cgd->bsgd", y, parameter("wk", {width, f.key_heads, f.features}, normal(0.3)));
    Tensor v = einsum("bsc,cgd->bsgd", y, parameter("wv", {width, f.key_heads, f.features}, normal(0.3)));
    Tensor scores = einsum("btgrd,bsgd->bgrts", q, k) * f.scale;
    if (f.biased) scores = scores + parameter("bias", {f.queries, f.keys}, normal(1.0));
    if (f.causal) scores = causal_mask(scores);
    Tensor weights = softmax(scores, -1);
    if (f.drops) weights = dropout(weights, 0.1);
    Tensor mixed = einsum("bgrts,bsgd->btgrd", weights, v);
    minimize(mean(mixed * mixed), SGD{.learning_rate = 100.0});
  });
  return differentiate(trace);
}

Cluster gpus(const std::vector<double>& speeds, AttentionBy attention = AttentionBy::cudnn) {
  Cluster cluster;
  cluster.name = "gpus", cluster.file = "gpus.toml";
  cluster.hosts = {{"host", {1e10, 1e-5}}};
  for (size_t i = 0; i < speeds.size(); ++i) {
    Device device;
    device.name = "gpu" + std::to_string(i);
    device.kind = DeviceKind::cuda;
    device.architecture = "sm_80";
    device.index = int(i);
    device.memory_bytes = int64_t(1) << 34;
    device.declared = {speeds[i] * 1e13, speeds[i] * 1e12};
    device.declared.attention = attention;
    cluster.devices.push_back(device);
  }
  return cluster;
}

/// Samples are dealt out to the ranks, the rest follows.
SpmdProgram plan_for(const Program& reference, const Cluster& cluster) {
  const int ranks = int(cluster.devices.size());
  const auto samples = [](const Node& leaf, int) { return leaf.name == "x" || leaf.name == "y" ? 0 : -1; };
  std::vector<test::CutAxis> axes;
  if (ranks > 1) axes.push_back(test::even_axis("dp", ranks, reference[0].type.shape[0]));
  return test::propagated_plan(reference, axes, samples);
}

DeviceProgram generated(const Program& reference, const Cluster& cluster) {
  return generate(reference, plan_for(reference, cluster), cluster, 0);
}
std::string host_text(const Form& form, const Cluster& cluster) {
  return generated(attends(form), cluster).files.at(0).text;
}

constexpr const char* forward_call = "hetsynth_device_attention\\(context, ";
constexpr const char* gradient_call = "hetsynth_device_attention_gradient\\(context, ";

TEST(CudnnPrograms, HaveCallsWhereTheClusterFileSaysSo) {
  const Form form;
  const std::string text = host_text(form, gpus({1}));
  EXPECT_THAT(text,
              AllOf(ContainsRegex(forward_call), ContainsRegex(gradient_call), Not(HasSubstr("kernel_attention"))));
  // batch, heads, heads of keys, queries, keys, features of both.
  EXPECT_THAT(text, HasSubstr("attention_sizes_0[] = {4, 2, 2, 16, 16, 8, 8};"));
  EXPECT_THAT(text, HasSubstr("attention_strides_0[] = {256, 8, 16, "));
  EXPECT_THAT(text, ContainsRegex("attention\\(context, attention_sizes_0, attention_strides_0, 0.3f, 1, "));
  EXPECT_THAT(host_text(form, gpus({1}, AttentionBy::generated)), Not(ContainsRegex(forward_call)));
}

TEST(CudnnPrograms, HaveCallsOnlyWhereCudnnComputesTheSame) {
  const auto calls = [](auto change) {
    Form form;
    change(form);
    const std::string text = host_text(form, gpus({1}));
    const bool forward = std::regex_search(text, std::regex(forward_call)),
               gradient = std::regex_search(text, std::regex(gradient_call));
    EXPECT_EQ(forward, gradient) << "a gradient reads what the forward call leaves";
    return forward;
  };
  EXPECT_TRUE(calls([](Form& f) { f.causal = false; }));
  EXPECT_TRUE(calls([](Form& f) { f.heads = 4; }));
  EXPECT_TRUE(calls([](Form& f) { f.causal = false, f.keys = 24; }));
  EXPECT_FALSE(calls([](Form& f) { f.precision = "f32"; }));
  EXPECT_FALSE(calls([](Form& f) { f.precision = "fp16"; }));
  EXPECT_FALSE(calls([](Form& f) { f.drops = true; }));
  EXPECT_FALSE(calls([](Form& f) { f.biased = true; }));
  EXPECT_FALSE(calls([](Form& f) { f.features = 12; }));
  EXPECT_FALSE(calls([](Form& f) { f.features = 136; }));
}

// ---- executed on doubles ----

/// The interpreter rounds to bf16 where the program does; cuDNN's results are rounded besides, and so are sums over
/// heads that share a head of keys: each by 2^-9 of numbers that are no larger than the largest. Seen: 0.3 percent of
/// that.
constexpr double bound = 0.01;

bool right(const After& after, const std::vector<double>& expected) {
  if (!after.problem.empty() || after.values.size() != expected.size()) return false;
  double largest = 0;
  for (double value : expected) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < expected.size(); ++i)
    if (!(std::abs(after.values[i] - expected[i]) <= bound * largest)) return false;
  return true;
}

/// The largest error, for messages.
std::string worst(const After& after, const std::vector<double>& expected) {
  double error = 0, largest = 0;
  for (size_t i = 0; i < std::min(expected.size(), after.values.size()); ++i) {
    error = std::max(error, std::abs(after.values[i] - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return " error " + std::to_string(error) + " of " + std::to_string(largest);
}

TEST(CudnnPrograms, TrainAsTheInterpreterDoesOnOneTwoAndFourRanks) {
  for (const bool causal : {true, false})
    for (const int64_t heads : {2, 4}) {
      Form form;
      form.causal = causal, form.heads = heads;
      const Program reference = attends(form);
      const std::vector<double> expected = expected_after_a_step(reference);
      // The step changes what is compared by more than what is allowed.
      After before;
      for (const Update& update : reference.updates) {
        const Array start = initial_values(reference, 3).at(update.target);
        before.values.insert(before.values.end(), start.values.begin(), start.values.end());
      }
      EXPECT_FALSE(right(before, expected));
      for (const std::vector<double>& speeds : {std::vector<double>{1}, {1, 3}, {1, 1, 1, 1}}) {
        const Cluster cluster = gpus(speeds);
        const SpmdProgram plan = plan_for(reference, cluster);
        const After after = after_a_step(reference, plan, cluster);
        EXPECT_TRUE(right(after, expected)) << speeds.size() << " ranks: " << after.problem << worst(after, expected);
      }
    }
}

TEST(CudnnPrograms, AreFollowedByTheCheckOfGeneratedSource) {
  const auto check = [](const Form& form, const std::vector<double>& speeds) {
    const Program reference = attends(form);
    const Cluster cluster = gpus(speeds);
    const SpmdProgram plan = plan_for(reference, cluster);
    const DeviceProgram device = generate(reference, plan, cluster, int(speeds.size()) - 1);
    const SourceCheck result = check_source(reference, plan, rank_source(device), source_options());
    EXPECT_EQ(result.verdict, Verdict::proved) << "line " << result.line << ": " << result.summary;
  };
  check({}, {1});
  check({.heads = 4}, {1});
  check({.batch = 2, .causal = false}, {1, 1});
}

/// Before anything is compiled: what is asked for, what is there, and what to write instead.
TEST(CudnnPrograms, AreRefusedWhereThereIsNoCudnnAndBeforeSm80) {
  const auto refusal = [](const MachineOptions& options, const Cluster& cluster) -> std::string {
    const CudaDoubles doubles(options);
    try {
      cuda::require_cuda(doubles.backend(), cluster.devices);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  MachineOptions without, old;
  without.has_cudnn = false;
  old.major = 7, old.minor = 5;
  EXPECT_EQ(refusal({}, gpus({1})), "");
  EXPECT_EQ(refusal(without, gpus({1}, AttentionBy::generated)), "");
  EXPECT_EQ(refusal(old, gpus({1}, AttentionBy::generated)), "");
  EXPECT_THAT(refusal(without, gpus({1})),
              AllOf(HasSubstr("the cluster file says that its attention is computed by cuDNN"),
                    HasSubstr("libcudnn.so.9, version 9.16.0 or later"), HasSubstr("cannot open shared object file"),
                    HasSubstr("write attention = \"generated\"")));
  EXPECT_THAT(refusal(old, gpus({1})), AllOf(HasSubstr("sm_80 or later"), HasSubstr("sm_75")));
}

class CudnnProgramFault : public ::testing::TestWithParam<Fault> {};

TEST_P(CudnnProgramFault, IsFoundByTheCheckAndByDoubles) {
  Form form;
  const Program reference = attends(form);
  const Cluster cluster = gpus({1});
  const SpmdProgram plan = plan_for(reference, cluster);
  const DeviceProgram device = damaged(generate(reference, plan, cluster, 0), GetParam());
  EXPECT_FALSE(right(after_a_step(reference, plan, cluster, {device}), expected_after_a_step(reference)));
  EXPECT_EQ(check_source(reference, plan, rank_source(device), source_options()).verdict, Verdict::refuted);
}

INSTANTIATE_TEST_SUITE_P(
    Calls, CudnnProgramFault,
    ::testing::Values(
        Fault{"stride_of_positions", "attention_strides_0\\[\\] = \\{256, 8, 16",
              "attention_strides_0[] = {256, 16, 8"},
        Fault{"stride_of_the_batch", "attention_strides_1\\[\\] = \\{256", "attention_strides_1[] = {128"},
        Fault{"fewer_keys", "attention_sizes_0\\[\\] = \\{4, 2, 2, 16, 16", "attention_sizes_0[] = {4, 2, 2, 16, 8"},
        Fault{"no_scale", "strides_0, 0.3f", "strides_0, 1.0f"},
        Fault{"no_scale_of_the_gradient", "strides_1, 0.3f", "strides_1, 1.0f"},
        Fault{"no_mask", "strides_0, 0.3f, 1", "strides_0, 0.3f, 0"},
        Fault{"no_mask_of_the_gradient", "strides_1, 0.3f, 1", "strides_1, 0.3f, 0"},
        Fault{"keys_for_queries", "(strides_0, 0\\.3f, 1, )(\\w+), (\\w+), ", "$1$3, $2, "},
        Fault{"statistics_elsewhere", "(attention_statistics_1 = \\(float\\*\\)\\(arena \\+ )", "$1 64 + "},
        Fault{"result_elsewhere", "(attention_result_1 = \\(bf16\\*\\)\\(arena \\+ )", "$1 64 + "},
        Fault{"workspace_over_statistics",
              "(attention_statistics_0 = \\(float\\*\\)\\(arena \\+ )([0-9]+)([^]*attention_workspace_1 = "
              "\\(float\\*\\)\\(arena \\+ )[0-9]+",
              "$1$2$3$2"},
        Fault{"gradient_of_something_else", "attention_by_k_1, attention_by_v_1", "attention_by_v_1, attention_by_k_1"},
        Fault{"no_call", "  if \\(hetsynth_device_attention\\(context[^\n]*\n", ""}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace hetsynth::testing_support
