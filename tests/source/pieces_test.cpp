// Tensors that lie in memory in pieces, as a loop fills them turn by turn: one piece that holds another turn's is found
// whatever reads it, though only some elements and some turns of sums are looked at.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "synth/baselines/baselines.h"
#include "tests/codegen/harness.h"
#include "tests/source/fixture.h"

namespace hetsynth::test {
namespace {

constexpr int turns = 60, width = 8, samples = 3, piece = samples * width;

/// A cell of 60 turns, whose states are read together: by a product, by its gradient, which is a sum over all turns,
/// by the runtime as an output and as new contents of a state. These lie row-major, so that they are copied.
const Generated& scanning() {
  static const Generated g = [] {
    Trace trace("scan.cpp");
    run_builder(trace, [&] {
      auto [tokens, targets] = token_batch(samples, turns, 12);
      const Tensor x = embedding(parameter("table", {12, width}, uniform(0.5)), tokens);
      const Tensor w = parameter("w", {width, width}, uniform(0.5)), u = parameter("u", {width, width}, uniform(0.5));
      const ScanResult r =
          scan(x, {full({samples, width}, 0)}, [&](const std::vector<Tensor>& state, const Tensor& now) {
            const Tensor h = tanh(matmul(now, w) + matmul(state[0], u));
            return ScanStep{{h}, h};
          });
      output("states", r.outputs);
      update(state("last", {samples, turns, width}, zeros()), r.outputs);
      minimize(cross_entropy(matmul(r.outputs, parameter("out", {width, 12}, uniform(0.5))), targets),
               SGD{.learning_rate = 0.1});
    });
    const Program program = differentiate(trace);
    const Cluster cluster = unequal_cluster({1e9});
    return generated(program, single_device_plan(program, cluster).program, cluster);
  }();
  return g;
}

struct Reader {
  const char* name;
  const char* behind;  ///< text before which a piece is damaged
  const char* tensor;
};

class Pieces : public ::testing::TestWithParam<Reader> {};

TEST_P(Pieces, OfAnotherTurnAreFound) {
  const std::string& text = scanning().devices[0].files.front().text;
  const auto& [name, behind, tensor] = GetParam();
  const size_t at = text.find(behind);
  ASSERT_NE(at, std::string::npos) << text;
  for (int turn = 2; turn < turns - 1; turn += 11) {
    const std::string damage =
        fmt::format("  copy({0} + {1}, {0} + {2}, {3});\n", tensor, piece * (turn + 1), piece * turn, piece);
    const SourceCheck found = check(scanning(), 0, text.substr(0, at) + damage + text.substr(at));
    EXPECT_EQ(found.verdict, Verdict::refuted) << "turn " << turn << ": " << found.summary;
  }
}

INSTANTIATE_TEST_SUITE_P(ReadBy, Pieces,
                         ::testing::Values(Reader{"ASum", "  float* const d_out = ", "t_stack"},
                                           Reader{"AProduct", "  float* const t_einsum_3 = ", "t_stack"},
                                           Reader{"LookedUpPlaces", "  float* const d_table = ", "d_t_embedding"},
                                           Reader{"ACopyForTheRuntime", "  float* const t_stack_2 = ", "t_stack"},
                                           Reader{"ACopyOfNewContents", "  compute_t_stack_2(t_stack, last);",
                                                  "t_stack"}),
                         [](const auto& info) { return std::string(info.param.name); });

/// A turn that is left out by two bounds that leave a gap, where what is looked up says where it is added.
TEST(PiecesOfTurns, ThatAreLeftOutOfLookedUpPlacesAreFound) {
  const std::string& text = scanning().devices[0].files.front().text;
  const std::string value = "d_t_embedding[i0 * 8 + i1 * 24 + c]", adds = "d_table[c + d_table_at_ * 8] += ";
  for (const int turn : {5, 17, 30, 41, 52}) {
    const std::string gap = fmt::format("(i1 < {0} ? {1} : 0.0f) + ({0} < i1 ? {1} : 0.0f)", turn, value);
    const SourceCheck found = check(scanning(), 0, edited(text, adds + value + ";", adds + gap + ";"));
    EXPECT_EQ(found.verdict, Verdict::refuted) << "turn " << turn << ": " << found.summary;
  }
}

TEST(PiecesOfTurns, ThatAreRightPass) {
  const SourceCheck found = check(scanning(), 0);
  EXPECT_EQ(found.verdict, Verdict::proved) << found.line << ": " << found.summary;
}

}  // namespace
}  // namespace hetsynth::test
