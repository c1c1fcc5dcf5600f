// Sums over many turns of which some add something and others nothing, as bounds on their counters decide, a few
// operators before the sum: right text passes, and wrong bounds, whoever has them, are found.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "synth/baselines/baselines.h"
#include "tests/codegen/harness.h"
#include "tests/source/fixture.h"

namespace hetsynth::test {
namespace {

/// Normalised rows of which a few in the middle of each sample count, and all of them a little where `beside`.
Generated counting_some(int64_t begin, int64_t end, bool beside) {
  Trace trace("norm.cpp");
  run_builder(trace, [&] {
    const Tensor x = parameter("x", {8, 40, 24}, normal(1)), shift = parameter("shift", {24}, zeros());
    const Tensor y = layernorm(x * x + shift, parameter("gain", {24}, ones()), parameter("bias", {24}, zeros()));
    const Tensor some = slice(y, 1, begin, end);
    Tensor loss = sum(some * some * some);
    if (beside) loss = loss + 0.1 * sum(y * y);
    minimize(loss, SGD{.learning_rate = 0.5, .momentum = 0});
  });
  const Program program = differentiate(trace);
  const Cluster cluster = unequal_cluster({1e9});
  return generated(program, single_device_plan(program, cluster).program, cluster);
}
struct Rows {
  int64_t begin, end;
  bool beside;
};

class Boxes : public ::testing::TestWithParam<Rows> {
 protected:
  Boxes() : g_(counting_some(GetParam().begin, GetParam().end, GetParam().beside)) {}
  const std::string& text() const { return g_.devices[0].files.front().text; }

  /// In the kernel that computes the gradients.
  void expect_found(const std::string& from, const std::string& to) const {
    const size_t kernel = text().find("static void compute_d_x("), at = text().find(from, kernel);
    ASSERT_NE(at, std::string::npos) << from << "\n" << text();
    const SourceCheck found = check(g_, 0, text().substr(0, at) + to + text().substr(at + from.size()));
    EXPECT_EQ(found.verdict, Verdict::refuted) << from << " by " << to << ": " << found.summary;
  }

  /// The condition under which a row counts.
  std::string condition() const {
    const size_t kernel = text().find("static void compute_d_x("), end = text().find(" ? d_t_slice", kernel);
    const size_t begin = text().rfind('(', end) + 1;
    return text().substr(begin, end - begin);
  }

  const Generated g_;
};

TEST_P(Boxes, ThatAreRightPass) {
  const SourceCheck found = check(g_, 0);
  EXPECT_EQ(found.verdict, Verdict::proved) << found.line << ": " << found.summary;
}

TEST_P(Boxes, OfOtherRowsAreFound) {
  const auto [begin, end, beside] = GetParam();
  for (const auto& [from, to] : {std::pair(begin - 1, end), std::pair(begin + 1, end), std::pair(begin, end - 1),
                                 std::pair(begin, end + 1), std::pair(begin + 2, end), std::pair(begin, end - 2)}) {
    if (from < 0 || to > 40 || from >= to) continue;
    expect_found(condition(), fmt::format("{} <= i1 && i1 < {}", from, to));
  }
  if (begin > 0) expect_found(condition(), fmt::format("i1 < {}", end));
  if (end < 40) expect_found(condition(), fmt::format("{} <= i1", begin));
  expect_found(condition(), "i1 < 0");
}

/// What the program adds in a few turns in the middle shows at no end of the loops.
TEST_P(Boxes, ThatAreLeftOutAreFound) {
  if (GetParam().beside)
    expect_found("d_t_layernorm_part_3_ + d_t_layernorm_part_4_", "d_t_layernorm_part_3_");
  else
    expect_found("? d_t_slice", "? 0.0f * d_t_slice");
}

/// A row, a sample or a column that is left out of a sum by two boxes that leave a gap.
TEST_P(Boxes, WithAGapAreFound) {
  for (const auto& [counter, number] :
       {std::pair("i1", 29), std::pair("i1", 18), std::pair("i0", 3), std::pair("i2", 13), std::pair("i2", 22)})
    for (const std::string& value :
         {std::string("d_bias[i2] += d_t_layernorm_"), std::string("d_shift[i2] += d_t_add_")}) {
      if (std::string(counter) == "i1" && !GetParam().beside && (number < GetParam().begin || number >= GetParam().end))
        continue;
      const std::string added = value.substr(value.find("+= ") + 3);
      expect_found(value, fmt::format("{0}({1} < {2} ? {3} : 0.0f) + ({2} < {1} ? {3} : 0.0f)",
                                      value.substr(0, value.size() - added.size()), counter, number, added));
    }
}

INSTANTIATE_TEST_SUITE_P(Of, Boxes,
                         ::testing::Values(Rows{17, 20, false}, Rows{17, 20, true}, Rows{0, 1, false}, Rows{0, 1, true},
                                           Rows{39, 40, true}, Rows{5, 38, false}),
                         [](const auto& info) {
                           return fmt::format("{}To{}{}", info.param.begin, info.param.end,
                                              info.param.beside ? "BesideAll" : "");
                         });

}  // namespace
}  // namespace hetsynth::test
