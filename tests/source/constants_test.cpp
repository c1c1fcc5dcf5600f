// Numbers that no float32 is, where something is compared with them: one-element tensors are computed in double and
// larger ones in float, and both are held against the program.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "synth/planner/synthesize.h"
#include "tests/codegen/harness.h"
#include "tests/source/fixture.h"

namespace hetsynth::test {
namespace {

using ::testing::Eq;
using ::testing::Matcher;
using ::testing::Ne;
using Function = std::function<Tensor(const Tensor&)>;

Generated trained(const Shape& shape, const Function& f, bool on_cuda) {
  Trace trace("constants.cpp");
  run_builder(trace, [&] {
    Tensor w = parameter("w", shape, zeros());
    minimize(sum(square(f(w))), SGD{});
  });
  const Program program = differentiate(trace);
  const Cluster cluster = on_cuda ? cuda_devices({1e9}) : unequal_cluster({1e9});
  const SpmdProgram plan = single_device_plan(program, cluster).program;
  return on_cuda ? generated_for_cuda(program, plan, cluster) : generated(program, plan, cluster);
}

using Operators = std::map<std::string, std::function<Tensor(const Tensor&, double)>>;

/// The check of every operator's text, with every number, in every shape, by either kind of device.
void expect_verdicts(const Operators& operators, const std::vector<Shape>& shapes, const std::vector<double>& constants,
                     const Matcher<std::string>& verdict) {
  for (const auto& [what, f] : operators)
    for (const Shape& shape : shapes)
      for (double constant : constants)
        for (bool on_cuda : {false, true}) {
          const Generated g = trained(
              shape, [&](const Tensor& w) { return f(w, constant); }, on_cuda);
          const SourceCheck found = check(g, 0);
          EXPECT_THAT(std::string(name(found.verdict)), verdict)
              << what << " with " << constant << " of " << text(shape) << ": " << found.summary << "\n"
              << g.devices[0].files.front().text;
        }
}

TEST(Constants, OfEveryComparisonAreThoseOfTheProgram) {
  const Operators comparisons = {
      {"minimum", [](const Tensor& w, double c) { return minimum(w, c); }},
      {"maximum", [](const Tensor& w, double c) { return maximum(w, c); }},
      {"clamp", [](const Tensor& w, double c) { return clamp(w, c - 0.7, c); }},
      {"less", [](const Tensor& w, double c) { return where(less(w, c), w, 2 * w); }},
      {"less_equal", [](const Tensor& w, double c) { return where(less_equal(w, c), w, 2 * w); }},
      {"equal", [](const Tensor& w, double c) { return where(equal(w, c), w, 2 * w); }},
      {"scaled", [](const Tensor& w, double c) { return where(less(0.3 * w, c), w, 2 * w); }},
      {"squared", [](const Tensor& w, double c) { return where(less(w * w, c), w, 2 * w); }}};
  expect_verdicts(comparisons, {{}, {1}, {2}, {1, 3}}, {0.1, 0.7, 1.0 / 3, 0.5, 3.0, 1e-3}, Eq("proved"));
}

/// One rule everywhere: what is compared is the float32, in the interpreter, in proofs and in text of either precision.
TEST(Constants, AreComparedAsFloats) {
  const Expr compared = less(Expr::input(0), 0.1);
  EXPECT_EQ(compared.arg(1).value(), double(0.1f));
  EXPECT_EQ(text(compared), "(in0 < 0.1)");
  EXPECT_EQ(maximum(1.0 / 3, Expr::input(0)).arg(0).value(), double(1.0f / 3));
  EXPECT_EQ(text(minimum(Expr::input(0), 0.7)), "minimum(in0, 0.7)");
  // Arithmetic keeps what was written, and integers may be compared with integers.
  EXPECT_EQ((Expr::input(0) * 0.1).arg(1).value(), 0.1);
  EXPECT_EQ(equal(Expr::input(0), 16777217.0).arg(1).value(), 16777217.0);
  // What float32 does not reach is what devices make of it, wherever it stands.
  constexpr double infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(less(Expr::input(0), 1e300).arg(1).value(), infinite);
  EXPECT_EQ(maximum(Expr::input(0), -1e39).arg(1).value(), -infinite);
  EXPECT_EQ((Expr::input(0) * 1e39).arg(1).value(), infinite);
  EXPECT_EQ((Expr::input(0) + 1e-46).arg(1).value(), 0.0);
  EXPECT_EQ((Expr::input(0) + 1e-45).arg(1).value(), 1e-45);
  EXPECT_EQ((Expr::input(0) * 3.4028235e38).arg(1).value(), double(std::numeric_limits<float>::max()));
}

/// As they were found: each was refuted, infinite by the text and 1e39 by the program.
TEST(Constants, BeyondWhatFloatsReachAreTheSameForAll) {
  const Operators operators = {
      {"maximum", [](const Tensor& w, double c) { return maximum(w, c); }},
      {"clamp", [](const Tensor& w, double c) { return clamp(w, -std::abs(c), std::abs(c)); }},
      {"abs", [](const Tensor& w, double c) { return 1 / (1 + abs(w - c)); }},
      {"relu", [](const Tensor& w, double c) { return 1 / (1 + relu(w + c)); }},
      {"leaky", [](const Tensor& w, double c) { return 1 / (2 + leaky_relu(w - c, 1e-3)); }},
      {"mask", [](const Tensor& w, double c) { return exp(where(less(w, 0.5), w, -c)); }},
      {"divided", [](const Tensor& w, double c) { return w / maximum(w, c); }},
      {"scaled", [](const Tensor& w, double c) { return tanh(c * w); }},
      {"largest", [](const Tensor& w, double c) { return w + 1 / max(reshape(w + c, {-1}), {0}, true); }}};
  expect_verdicts(operators, {{}, {2}, {1, 3}}, {1e39, -1e39, 1e300, 1e-46, -1e-46, 3.4028235e38}, Ne("refuted"));
}

/// The number itself still counts: another one is told from it.
TEST(Constants, WrongOnesAreRefuted) {
  const Generated g = trained(
      {}, [](const Tensor& w) { return where(less(w, 0.1), w, 2 * w); }, false);
  const std::string text = g.devices[0].files.front().text;
  const std::string right = fmt::format("{}", double(0.1f));
  EXPECT_EQ(check(g, 0, edited(text, right, "0.125")).verdict, Verdict::refuted);
}

}  // namespace
}  // namespace hetsynth::test
