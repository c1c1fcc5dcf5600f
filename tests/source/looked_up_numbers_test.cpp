// Rows that are looked up by numbers in memory: text that leaves one number out, which it names, is found, though of
// the numbers that are looked up few are tried.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "synth/baselines/baselines.h"
#include "tests/codegen/harness.h"
#include "tests/source/fixture.h"

namespace hetsynth::test {
namespace {

const Generated& looking_up() {
  static const Generated g = [] {
    Trace trace("lookup.cpp");
    run_builder(trace, [&] {
      auto [tokens, targets] = token_batch(8, 40, 1000);
      const Tensor x = embedding(parameter("table", {1000, 8}, uniform(0.5)), tokens);
      minimize(cross_entropy(matmul(tanh(x), parameter("out", {8, 1000}, uniform(0.5))), targets),
               SGD{.learning_rate = 0.1});
    });
    const Program program = differentiate(trace);
    const Cluster cluster = unequal_cluster({1e9});
    return generated(program, single_device_plan(program, cluster).program, cluster);
  }();
  return g;
}

struct LeftOut {
  const char* name;
  const char *from, *to;  ///< {}: the number
};

class LookedUpNumbers : public ::testing::TestWithParam<LeftOut> {};

TEST_P(LookedUpNumbers, ThatAreLeftOutAreFound) {
  const std::string& text = looking_up().devices[0].files.front().text;
  for (const int number : {7, 500, 733}) {
    const std::string wrong = edited(text, GetParam().from, fmt::format(fmt::runtime(GetParam().to), number));
    const SourceCheck found = check(looking_up(), 0, wrong);
    EXPECT_EQ(found.verdict, Verdict::refuted) << number << ": " << found.summary;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, LookedUpNumbers,
                         ::testing::Values(LeftOut{"RowsOfATable", "(unsigned long)t_embedding_at_ < 1000 ?",
                                                   "(unsigned long)t_embedding_at_ < 1000 && t_embedding_at_ != {} ?"},
                                           LeftOut{"Losses", "(unsigned long)t_pick_at_ < 1000 ?",
                                                   "(unsigned long)t_pick_at_ < 1000 && t_pick_at_ != {} ?"},
                                           LeftOut{"TheirGradients", "(targets[i0i1] == i2 ? 1.0f : 0.0f)",
                                                   "(targets[i0i1] == i2 && i2 != {} ? 1.0f : 0.0f)"},
                                           LeftOut{"GradientsOfATable", "if ((unsigned long)d_table_at_ < 1000)",
                                                   "if ((unsigned long)d_table_at_ < 1000 && d_table_at_ != {})"}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(LookedUpNumbersOfAll, ThatAreRightPass) {
  const SourceCheck found = check(looking_up(), 0);
  EXPECT_EQ(found.verdict, Verdict::proved) << found.line << ": " << found.summary;
}

}  // namespace
}  // namespace hetsynth::test
