// Damage to what a program decides by comparing numbers is found: bounds, places of maxima, schedules.
#include <gtest/gtest.h>

#include <map>

#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "synth/baselines/baselines.h"
#include "tests/codegen/harness.h"
#include "tests/source/damage.h"
#include "tests/source/fixture.h"

namespace hetsynth::test {
namespace {

Program trained(const std::function<Tensor()>& loss, const SGD& optimizer = {.learning_rate = 0.5, .momentum = 0}) {
  Trace trace("model.cpp");
  run_builder(trace, [&] { minimize(loss(), optimizer); });
  return differentiate(trace);
}
Program pooled() {
  return trained([] {
    Tensor x = parameter("x", {2, 3, 6, 4}, normal(1));
    return sum(max_pool2d(x, {2, 2}) * max_pool2d(x, {2, 2}));
  });
}
Program largest() {
  return trained([] {
    Tensor x = parameter("x", {5, 7}, normal(1)), m = max(x, 1);
    return sum(m * m * m);
  });
}
Program clamped() {
  return trained([] {
    Tensor x = parameter("x", {5, 7}, normal(1)), y = clamp(x * x, 0.01, 30);
    return sum(y * y);
  });
}
Program seldom_below_zero() {
  return trained([] {
    Tensor x = parameter("x", {6, 5}, normal(1)), y = relu(x * x * 16.0 + x);
    output("y", y);
    return sum(x * x);
  });
}
Program overlapping() {
  return trained([] {
    Tensor x = parameter("x", {2, 1, 7, 5}, normal(1)), y = max_pool2d(x, {3, 3}, {.stride = Extent2d{2, 2}});
    return sum(y * y * y);
  });
}
Program chosen() {
  return trained([] {
    Tensor x = parameter("x", {6, 4}, normal(1)), w = parameter("w", {4, 5}, normal(1));
    Tensor p = softmax(matmul(x, w), -1), best = max(p, 1, true);
    return sum(where(equal(p, best), p * p, p * 0.25)) + sum(relu(x - 0.5)) + sum(abs(x));
  });
}
Program scheduled() {
  return trained(
      [] {
        Tensor x = parameter("x", {5, 7}, normal(1));
        return sum(x * x * x);
      },
      {.learning_rate = 0.5, .momentum = 0, .clip_norm = 20, .warmup_steps = 100});
}
Program padded() {
  return trained([] {
    Tensor x = parameter("x", {8, 7}, normal(1));
    return cross_entropy(x, synthetic_batch(8, 3, 7).labels, {.ignored_label = -100});
  });
}

/// Damage to a text with the first occurrence of `from` behind `after` replaced by `to`.
struct Edit {
  const char* name;
  Program (*program)();
  const char *after, *from, *to;
};
void PrintTo(const Edit& d, std::ostream* out) { *out << d.name; }

Generated on_cpu(const Program& program) {
  const Cluster cluster = unequal_cluster({1e9});
  return generated(program, single_device_plan(program, cluster).program, cluster);
}
Generated on_cuda(const Program& program) {
  const Cluster cluster = cuda_devices({1e9});
  return generated_for_cuda(program, single_device_plan(program, cluster).program, cluster);
}

class Decisions : public ::testing::TestWithParam<Edit> {};

TEST_P(Decisions, DamageIsFound) {
  const Edit& e = GetParam();
  const Program program = e.program();
  const Generated cpu = on_cpu(program), cuda = on_cuda(program);
  const std::string &by_cpu = cpu.devices[0].files[0].text, &by_cuda = cuda.devices[0].files[1].text;
  EXPECT_EQ(check(cpu, 0, by_cpu).verdict, Verdict::proved) << check(cpu, 0, by_cpu).summary;
  EXPECT_EQ(check_kernels(cuda, 0, by_cuda).verdict, Verdict::proved) << check_kernels(cuda, 0, by_cuda).summary;
  EXPECT_EQ(check(cpu, 0, replaced(by_cpu, e.after, e.from, e.to)).verdict, Verdict::refuted);
  EXPECT_EQ(check_kernels(cuda, 0, replaced(by_cuda, e.after, e.from, e.to)).verdict, Verdict::refuted);
}

const Edit edits[] = {
    {"no_gradient_of_pooling", pooled, "= max_pool2d_gradient", "? t_max_pool2d", "? 0.0f * t_max_pool2d"},
    {"another_place_of_pooling", pooled, "= max_pool2d_gradient", "== -(", "== -2.0f * ("},
    {"another_first_place", pooled, "= max_pool2d_first", "? -(", "? -2.0f * ("},
    {"no_gradient_of_maximum", largest, "= max_gradient", "_ / d_t_max_4_", "_ / 2.0f / d_t_max_4_"},
    {"another_upper_bound", clamped, "= clamp(", ", 30.0f)", ", 31.0f)"},
    {"no_lower_bound", clamped, "= clamp(", ", 0.01f)", ", 0.0f)"},
    {"another_bound_of_the_gradient", clamped, "= clamp_gradient(", "30.0f <", "300.0f <"},
    {"no_bound_that_is_seldom_met", seldom_below_zero, "= relu", ", 0.0f)", ", -9.0f)"},
    {"a_longer_warmup", scheduled, "", "100", "200"},
    {"another_norm", scheduled, "compute_clip_scale", " 20.0", " 21.0"},
    {"no_end_of_warmup", scheduled, "compute_learning_rate", "min_f64(1.0, ", "min_f64(9.0, "},
    {"another_ignored_label", padded, "", "-100", "-1"},
};
INSTANTIATE_TEST_SUITE_P(Seeded, Decisions, ::testing::ValuesIn(edits),
                         [](const auto& info) { return std::string(info.param.name); });

/// What is no number on either side is no reason to look at it for ever.
TEST(SourceDecisions, RootsOfNegativeNumbersPass) {
  const Program program = trained([] {
    Tensor x = parameter("x", {5, 7}, normal(1));
    output("root", sqrt(1.0 - x * x));
    return sum(x * x * x);
  });
  for (const Generated& g : {on_cpu(program), on_cuda(program)})
    EXPECT_EQ(check(g, 0).verdict, Verdict::proved) << check(g, 0).summary;
}

/// Without a schedule that compares it, too.
TEST(SourceDecisions, AStepThatStandsStillIsFound) {
  Trace trace("model.cpp");
  run_builder(trace, [] {
    Tensor x = parameter("x", {5, 7}, normal(1));
    minimize(sum(x * x * x), AdamW{});
  });
  const Generated g = on_cpu(differentiate(trace));
  const std::string& text = text_of(g, 0);
  EXPECT_EQ(check(g, 0).verdict, Verdict::proved);
  const std::string still = replaced(text, text.substr(own_part(text), 40), "(double)step", "(double)3");
  EXPECT_EQ(check(g, 0, still).verdict, Verdict::refuted);
}

/// Every number and every comparison of a text on one cpu device, changed one at a time.
TEST(SourceDecisions, EveryOneCounts) {
  std::map<Verdict, int> verdicts;
  for (Program (*made)() : {pooled, overlapping, largest, clamped, scheduled, padded, chosen}) {
    const Generated g = on_cpu(made());
    const std::string& text = text_of(g, 0);
    ASSERT_EQ(check(g, 0).verdict, Verdict::proved) << check(g, 0).summary << "\n" << text;
    Damage damage(g);
    for (const SourceEdit& edit : edits_of(text)) damage.inflict(edited(text, edit), description(text, edit));
    for (const auto& [verdict, count] : damage.verdicts) verdicts[verdict] += count;
  }
  EXPECT_GT(verdicts[Verdict::refuted], 400);
  // Sizes of local arrays, bounds that no number lies on, loops that end where something else does.
  EXPECT_LT(verdicts[Verdict::proved], verdicts[Verdict::refuted] / 3);
  EXPECT_EQ(verdicts[Verdict::unknown], 0);
}

}  // namespace
}  // namespace hetsynth::test
