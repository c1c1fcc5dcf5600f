// The check of source and formats of 16 bits: texts that convert as the plan says pass, and a conversion that is left
// out, or to the other format, is told.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "dsl/transform/turns.h"
#include "hetsynth/hetsynth.h"
#include "synth/baselines/baselines.h"
#include "tests/codegen/harness.h"
#include "tests/codegen/models.h"
#include "tests/source/fixture.h"

namespace hetsynth::test {
namespace {

using ::testing::HasSubstr;

/// Products of either format, and numbers that are rounded to either on their way, so that the text knows both.
Program both_formats() {
  Trace trace("both.cpp");
  run_builder(trace, [] {
    Tensor x = synthetic_batch(12, 10, 3).samples;
    Tensor y = einsum("bi,ij->bj", cast(x, fp16), cast(parameter("w", {10, 6}, normal(0.3)), fp16));
    Tensor z = einsum("bi,ij->bj", cast(x, bf16), cast(parameter("v", {10, 6}, normal(0.3)), bf16));
    Tensor rounded = cast(cast(tanh(y) * 1.7, fp16), f32) + cast(cast(tanh(z) * 1.3, bf16), f32);
    minimize(mean(rounded * rounded), SGD{.learning_rate = 0.5, .momentum = 0});
  });
  return differentiate(trace);
}

const Generated& on_cores() {
  static const Generated g = [] {
    Program program = both_formats();
    const Cluster cluster = unequal_cluster({1e9, 2e9});
    const SpmdProgram plan = data_parallel_plan(program, cluster, RatioRule::proportional).program;
    return generated(std::move(program), plan, cluster);
  }();
  return g;
}
const Generated& on_gpu() {
  static const Generated g = [] {
    const Program program = both_formats();
    const Cluster cluster = cuda_devices({1e9});
    return generated_for_cuda(program, single_device_plan(program, cluster).program, cluster);
  }();
  return g;
}

TEST(HalfSource, OfBothFormatsPasses) {
  for (int rank : {0, 1}) {
    const SourceCheck found = check(on_cores(), rank);
    EXPECT_EQ(found.verdict, Verdict::proved) << "line " << found.line << ": " << found.summary;
  }
  const SourceCheck found = check(on_gpu(), 0);
  EXPECT_EQ(found.verdict, Verdict::proved) << "line " << found.line << ": " << found.summary;
}

/// Everywhere: a value that is stored in a format is rounded to it twice, by the operator and where it is stored.
struct Damage {
  const char *name, *from, *to;
};
void PrintTo(const Damage& damage, std::ostream* out) { *out << damage.name; }

std::vector<Damage> damages() {
  return {{"fp16_rounds_nothing", "round_fp16(", "("},
          {"bf16_rounds_nothing", "round_bf16(", "("},
          {"bf16_for_fp16", "round_fp16(", "round_bf16("},
          {"fp16_for_bf16", "round_bf16(", "round_fp16("},
          {"fp16_of_bf16_is_stored", " = (fp16)", " = (fp16)(bf16)"}};
}

/// Behind the functions that kernels lean on.
std::string damaged(std::string text, const std::string& kernels, const Damage& d) {
  size_t at = text.find(kernels);
  EXPECT_NE(at, std::string::npos) << text;
  const std::string from = d.from, to = d.to;
  const std::string before = text;
  while ((at = text.find(from, at)) != std::string::npos) {
    text.replace(at, from.size(), to);
    at += to.size();
  }
  EXPECT_NE(text, before);
  return text;
}

class HalfDamage : public ::testing::TestWithParam<Damage> {};

TEST_P(HalfDamage, IsToldInKernels) {
  const Damage& d = GetParam();
  const std::string& kernels = on_gpu().devices[0].files[1].text;
  const SourceCheck found = check_kernels(on_gpu(), 0, damaged(kernels, "extern \"C\" __global__", d));
  EXPECT_EQ(found.verdict, Verdict::refuted) << found.summary;
  EXPECT_THAT(found.summary, HasSubstr("by the text and"));
  EXPECT_GT(found.line, 0);
}

TEST_P(HalfDamage, IsToldOnCores) {
  const Damage& d = GetParam();
  const std::string& text = on_cores().devices[0].files[0].text;
  const SourceCheck found = check(on_cores(), 0, damaged(text, "__attribute__((noinline)) static void ", d));
  EXPECT_EQ(found.verdict, Verdict::refuted) << found.summary;
  EXPECT_THAT(found.summary, HasSubstr("by the text and"));
}

INSTANTIATE_TEST_SUITE_P(Seeded, HalfDamage, ::testing::ValuesIn(damages()),
                         [](const auto& info) { return std::string(info.param.name); });

/// Operands are passed as pointers to anything: the call says what they are.
TEST(HalfSource, AProductOfTheOtherFormatIsTold) {
  const std::string& host = on_gpu().devices[0].files[0].text;
  const std::string& cores = on_cores().devices[0].files[0].text;
  for (const auto& [one, other] : {std::pair("fp16", "bf16"), {"bf16", "fp16"}}) {
    const std::string from = fmt::format("matmul_{}(", one), to = fmt::format("matmul_{}(", other);
    const SourceCheck by_gpu = check(on_gpu(), 0, replaced(host, "hetsynth_step", from, to));
    EXPECT_EQ(by_gpu.verdict, Verdict::refuted) << by_gpu.summary;
    EXPECT_THAT(by_gpu.summary, HasSubstr("takes an operand of another type"));
    const SourceCheck by_core = check(on_cores(), 0, replaced(cores, "int hetsynth_step", from, to));
    EXPECT_EQ(by_core.verdict, Verdict::refuted) << by_core.summary;
    EXPECT_THAT(by_core.summary, HasSubstr("takes an operand of another type"));
  }
}

/// When counts of elements that are not finite decided about overflows, which are 0 for all usual numbers, that of one
/// gradient was taken for that of another, and once the parameter was updated in place nothing could be followed any
/// more. Sums of magnitudes tell gradients apart.
TEST(HalfSource, MagnitudesBelongToTheirGradient) {
  Trace trace("tied.cpp");
  run_builder(trace, [] {
    mixed_precision("bf16", DynamicLossScale{});
    auto [tokens, next] = token_batch(4, 6, 60);
    Tensor words = parameter("words", {60, 16}, normal(0.3)), places = parameter("places", {6, 16}, normal(0.3));
    Tensor x = embedding(words, tokens) + places;
    Tensor h = gelu(matmul(x, parameter("w", {16, 16}, normal(0.3))));
    minimize(cross_entropy(einsum("btc,vc->btv", h, words), next), Adam{});
  });
  const Program program = differentiate(trace);
  const Cluster cluster = cuda_devices({1e9});
  const Generated g = generated_for_cuda(program, single_device_plan(program, cluster).program, cluster);
  const SourceCheck found = check(g, 0);
  EXPECT_EQ(found.verdict, Verdict::proved) << "line " << found.line << ": " << found.summary;
  const auto verdict_with = [&](const std::string& from, const std::string& to) {
    Generated edited = g;
    std::string& text = edited.devices[0].files.at(1).text;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from << "\n" << text;
    if (at != std::string::npos) text.replace(at, from.size(), to);
    return check(edited, 0).verdict;
  };
  // What is too large is seen, and a gradient that is left out, or counted with its sign.
  for (const std::string other : {"1.0e+38f", "3.4028235e+37f", "1.0e+30f", "0.0f"})
    EXPECT_EQ(verdict_with("magnitude_2[0] <= 3.4028235e+38f", "magnitude_2[0] <= " + other), Verdict::refuted)
        << other;
  EXPECT_EQ(verdict_with("max_f32(d_places[at], -d_places[at])", "d_places[at]"), Verdict::refuted);
  EXPECT_EQ(verdict_with("max_f32(d_places[at], -d_places[at])", "0.0f"), Verdict::refuted);
}

/// Layers of unlike sizes, whose sums were taken for one another in turns and stages and with several batches a step.
Program scaled_layers(const Settings& settings = {}) {
  Trace trace("layers.cpp", settings);
  run_builder(trace, [] {
    mixed_precision("fp16", DynamicLossScale{.initial = 1024, .interval = 2});
    auto [x, labels] = synthetic_batch(8, 20, 5);
    Tensor h = x;
    for (const int64_t width : {24, 40, 12}) {
      const std::string name = fmt::format("h{}.", width);
      h = relu(matmul(h, parameter(name + "w", {h.size(1), width}, normal(0.1))) +
               parameter(name + "b", {width}, zeros()));
    }
    minimize(cross_entropy(matmul(h, parameter("head", {12, 5}, normal(0.1))), labels), Adam{});
  });
  return differentiate(trace);
}

TEST(HalfSource, DynamicScalesOfUnlikeLayersPass) {
  const Program whole = scaled_layers();
  for (const auto& [name, program] : {std::pair("whole", whole),
                                      {"turns", *take_turns(whole, {4}).program},
                                      {"batches", scaled_layers({{"micro_batches", "2"}})}}) {
    const Cluster two = cuda_devices({1e9, 1e9}), one = cuda_devices({1e9});
    for (const auto& [cluster, plan] :
         {std::pair(one, single_device_plan(program, one)), {two, data_parallel_plan(program, two, RatioRule::even)}}) {
      const Generated g = generated_for_cuda(program, plan.program, cluster);
      const SourceCheck found = check(g, 0);
      EXPECT_EQ(found.verdict, Verdict::proved) << name << " line " << found.line << ": " << found.summary;
    }
  }
}

/// Whether attention's weights are rounded is looked at where few keys are weighed, too, for which a rounding may
/// happen to change nothing: in this model a block of attention was refuted.
TEST(HalfSource, AttentionOfSeveralBlocksPasses) {
  const Program program = gpt_program({{"layers", "3"},
                                       {"heads", "2"},
                                       {"width", "16"},
                                       {"batch", "4"},
                                       {"seq", "8"},
                                       {"precision", "fp16"},
                                       {"micro_batches", "2"}});
  const Cluster cluster = cuda_devices({1e9});
  const Generated g = generated_for_cuda(program, single_device_plan(program, cluster).program, cluster);
  const SourceCheck found = check(g, 0);
  EXPECT_EQ(found.verdict, Verdict::proved) << "line " << found.line << ": " << found.summary;
}

}  // namespace
}  // namespace hetsynth::test
