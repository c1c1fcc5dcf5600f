// Sampling: windows, greedy and random picks, printing; on a hand-written forward program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dsl/base/error.h"
#include "runtime/training/text_generation.h"
#include "tests/runtime/fake_program.h"
#include "tests/support/error_of.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace testing;  // NOLINT: fixtures of this folder

constexpr int64_t window = 4, classes = 128;

/// tokens [1, 4] -> logits [1, 4, 128], or [1, 128] of the byte after the window.
Program forward_program(bool every_position) {
  Program program;
  Node tokens = fake_leaf(0, NodeKind::input, "tokens", {1, window}, {});
  tokens.type.dtype = DType::i32;
  tokens.data = {DataSource::Kind::text_tokens, window, classes};
  Node logits =
      fake_leaf(1, NodeKind::state, "logits", every_position ? Shape{1, window, classes} : Shape{1, classes}, {});
  program.nodes = {tokens, logits};
  program.outputs = {{"logits", 1}};
  return program;
}

/// Says that after byte c comes c + 1; the last position's byte decides where there is one row only.
std::unique_ptr<Executor> successor_model(bool every_position) {
  const Program program = forward_program(every_position);
  RankProgram rank;
  rank.device.name = "cpu0";
  const int64_t rows = every_position ? window : 1;
  rank.layout.arena_bytes = 64 + rows * classes * 4;
  rank.layout.leaves = {{0, 0, 0, {{0, 1}, {0, window}}, DType::i32}};
  std::vector<Range> all;
  for (const int64_t extent : program[1].type.shape) all.push_back({0, extent});
  rank.layout.outputs = {{1, 1, 64, all, DType::f32}};
  rank.step = [rows](HetsynthContext* context) {
    const auto* tokens = reinterpret_cast<const int32_t*>(context->arena);
    auto* logits = reinterpret_cast<float*>(context->arena + 64);
    for (int64_t row = 0; row < rows; ++row) {
      const int32_t seen = tokens[rows == 1 ? window - 1 : row];
      for (int64_t c = 0; c < classes; ++c) logits[row * classes + c] = c == (seen + 1) % classes ? 20.0f : 0.0f;
    }
    return 0;
  };
  std::vector<RankProgram> ranks;
  ranks.push_back(std::move(rank));
  return std::make_unique<Executor>(program, fake_mesh(1), std::move(ranks), ExecutorOptions{});
}

TEST(Sample, ContinuesThePromptShortAndLong) {
  for (const bool every_position : {true, false}) {
    const auto executor = successor_model(every_position);
    const TextModel model = text_model(executor->reference());
    EXPECT_EQ(model.every_position, every_position);
    EXPECT_EQ(sample_text(*executor, model, {"A", 5, 0, 0}), "BCDEF");
    EXPECT_EQ(sample_text(*executor, model, {"abcdefgh", 3, 0, 0}), "ijk");
    EXPECT_EQ(sample_text(*executor, model, {"", 2, 0, 0}), "\x0b\x0c");  // after a newline
  }
}

TEST(Sample, SameSeedDrawsTheSameText) {
  const auto executor = successor_model(true);
  const TextModel model = text_model(executor->reference());
  const SampleOptions hot{"A", 40, 10.0, 1};
  SampleOptions other = hot;
  other.seed = 2;
  EXPECT_EQ(sample_text(*executor, model, hot), sample_text(*executor, model, hot));
  EXPECT_NE(sample_text(*executor, model, hot), sample_text(*executor, model, other));
}

TEST(Sample, PickFollowsTheSoftmax) {
  const std::vector<float> logits{0.0f, std::log(3.0f), -1e9f};  // probabilities 1/4, 3/4, 0
  EXPECT_EQ(pick(logits, 1.0, 0.0), 0);
  EXPECT_EQ(pick(logits, 1.0, 0.249), 0);
  EXPECT_EQ(pick(logits, 1.0, 0.251), 1);
  EXPECT_EQ(pick(logits, 1.0, 0.9999999), 1);
  EXPECT_EQ(pick(logits, 0.0, 0.0), 1);
  EXPECT_EQ(pick(std::vector<float>{5, 5}, 0.0, 0.9), 0);
}

TEST(Sample, PrintsOneLineOfAscii) { EXPECT_EQ(printable("a\n\\b\x01\xc3\x7f~"), "a\\n\\\\b\\x01\\xc3\\x7f~"); }

TEST(Sample, ModelsThatCannotBeSampledAreRefused) {
  const auto refusal = [](const Program& program) { return error_of([&] { text_model(program); }); };
  Program unnamed = forward_program(true), two = forward_program(true), shape = forward_program(true),
          none = forward_program(true);
  unnamed.outputs.clear();
  two.nodes.push_back(two.nodes[0]);
  two.nodes[2].name = "more";
  shape.nodes[1].type.shape = {3, classes};
  none.nodes[0].kind = NodeKind::parameter;
  EXPECT_THAT(refusal(unnamed), AllOf(HasSubstr("no output \"logits\""), HasSubstr("mark the logits")));
  EXPECT_THAT(refusal(two), HasSubstr("one window of text"));
  EXPECT_THAT(refusal(shape), AllOf(HasSubstr("do not fit the text"), HasSubstr("[3,128]")));
  EXPECT_THAT(refusal(none), HasSubstr("do not depend on text"));
}

}  // namespace
}  // namespace hetsynth
