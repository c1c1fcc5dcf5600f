// Continuing a text: which tokens a program is given, where windows begin, what is drawn; on hand-written programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "runtime/rank/interrupt.h"
#include "runtime/training/text_generation.h"
#include "tests/runtime/fake_program.h"

namespace hetsynth {
namespace {

using ::testing::ElementsAre;
using namespace testing;  // NOLINT: fixtures of this folder

constexpr int64_t window = 4, classes = 128;

enum class Reads { window, one_token, next_only };

/// tokens [1, 4] or [1, 1], and the position where there are any -> logits [1, 128].
GenerationProgram hand_written(Reads reads) {
  GenerationProgram out;
  Node tokens = fake_leaf(0, NodeKind::input, "tokens", {1, reads == Reads::one_token ? 1 : window}, {});
  tokens.type.dtype = DType::i32;
  tokens.data = {DataSource::Kind::text_tokens, window, classes};
  Node position = fake_leaf(1, NodeKind::input, "position", {}, {});
  position.type.dtype = DType::i32;
  position.data = {.kind = DataSource::Kind::named, .classes = window, .lowest = 0, .highest = window - 1};
  out.program.nodes = {tokens, position, fake_leaf(2, NodeKind::state, "logits", {1, classes}, {})};
  out.program.outputs = {{"logits", 2}};
  out.tokens = 0, out.position = 1, out.logits = 2;
  out.reads_window = reads != Reads::one_token;
  out.model = {0, 2, window, classes, classes, reads == Reads::next_only ? -1 : 1, true};
  if (reads == Reads::next_only) out.program.nodes.erase(out.program.nodes.begin() + 1), out.position = -1;
  for (size_t i = 0; i < out.program.nodes.size(); ++i) out.program.nodes[i].id = NodeId(i);
  if (reads == Reads::next_only) out.logits = 1, out.program.outputs[0].node = 1;
  return out;
}

/// What an executor was run with: the tokens, then the position.
using Runs = std::vector<std::vector<int32_t>>;

/// Says that after byte c comes c + 1, c being the byte at the position, or the window's last.
std::unique_ptr<Executor> successor_model(const GenerationProgram& program, Runs* runs = nullptr) {
  RankProgram rank;
  rank.device.name = "cpu0";
  const int64_t count = program.program[program.tokens].type.shape[1];
  rank.layout.arena_bytes = 128 + classes * 4;
  rank.layout.leaves = {{0, 0, 0, {{0, 1}, {0, count}}, DType::i32}};
  if (program.position >= 0) rank.layout.leaves.push_back({1, 1, 64, {}, DType::i32});
  rank.layout.outputs = {{program.logits, 2, 128, {{0, 1}, {0, classes}}, DType::f32}};
  const bool has_position = program.position >= 0;
  rank.step = [=](HetsynthContext* context) {
    const auto* tokens = reinterpret_cast<const int32_t*>(context->arena);
    const int32_t position = has_position ? *reinterpret_cast<const int32_t*>(context->arena + 64) : window - 1;
    if (runs) runs->emplace_back(tokens, tokens + count), runs->back().push_back(position);
    auto* logits = reinterpret_cast<float*>(context->arena + 128);
    const int32_t seen = tokens[count == 1 ? 0 : position];
    for (int64_t c = 0; c < classes; ++c) logits[c] = c == (seen + 1) % classes ? 20.0f : 0.0f;
    return 0;
  };
  std::vector<RankProgram> ranks;
  ranks.push_back(std::move(rank));
  return std::make_unique<Executor>(program.program, fake_mesh(1), std::move(ranks), ExecutorOptions{});
}

TEST(Sample, ContinuesThePromptShortAndLong) {
  for (const Reads reads : {Reads::window, Reads::one_token, Reads::next_only}) {
    const GenerationProgram program = hand_written(reads);
    const auto executor = successor_model(program);
    EXPECT_EQ(sample_text(*executor, program, {"A", 5, 0, 0}), "BCDEF");
    EXPECT_EQ(sample_text(*executor, program, {"abcdefgh", 3, 0, 0}), "ijk");
    EXPECT_EQ(sample_text(*executor, program, {"", 2, 0, 0}), "\x0b\x0c");  // after a newline
  }
}

TEST(Sample, WindowsThatAreFullGoOnWithTheirLastHalf) {
  const GenerationProgram program = hand_written(Reads::window);
  Runs runs;
  const auto executor = successor_model(program, &runs);
  sample_text(*executor, program, {"AB", 5, 0, 0});
  EXPECT_THAT(runs, ElementsAre(ElementsAre('A', 'B', '\n', '\n', 1), ElementsAre('A', 'B', 'C', '\n', 2),
                                ElementsAre('A', 'B', 'C', 'D', 3), ElementsAre('D', 'E', '\n', '\n', 1),
                                ElementsAre('D', 'E', 'F', '\n', 2)));
}

TEST(Sample, OneTokenIsReadAfterTheOtherAndAgainWhereTheWindowBegins) {
  const GenerationProgram program = hand_written(Reads::one_token);
  Runs runs;
  const auto executor = successor_model(program, &runs);
  sample_text(*executor, program, {"xxxABC", 4, 0, 0});  // the window is "xABC"
  EXPECT_THAT(runs, ElementsAre(ElementsAre('x', 0), ElementsAre('A', 1), ElementsAre('B', 2), ElementsAre('C', 3),
                                ElementsAre('C', 0), ElementsAre('D', 1), ElementsAre('E', 2), ElementsAre('F', 3)));
}

TEST(Sample, OfTheNextByteAloneTheWindowMovesByOne) {
  const GenerationProgram program = hand_written(Reads::next_only);
  Runs runs;
  const auto executor = successor_model(program, &runs);
  sample_text(*executor, program, {"ABC", 3, 0, 0});
  EXPECT_THAT(runs, ElementsAre(ElementsAre('\n', 'A', 'B', 'C', 3), ElementsAre('A', 'B', 'C', 'D', 3),
                                ElementsAre('B', 'C', 'D', 'E', 3)));
}

TEST(Sample, WindowsBegin) {
  EXPECT_EQ(window_begin({}, 3, 8), 0);
  EXPECT_EQ(window_begin({}, 11, 8), 3);
  EXPECT_EQ(window_begin(3, 11, 8), 3);
  EXPECT_EQ(window_begin(3, 12, 8), 8);
  EXPECT_EQ(window_begin(0, 8, 7), 5);
  EXPECT_EQ(window_begin(4, 6, 1), 5);
}

TEST(Sample, CountsTheTokensThatAreReadBeforeOneIsDrawn) {
  EXPECT_EQ(tokens_read_ahead(5, 1, 8), 4);    // all of the prompt but the last, after which one is drawn
  EXPECT_EQ(tokens_read_ahead(11, 1, 8), 7);   // of a long one the last 8
  EXPECT_EQ(tokens_read_ahead(5, 4, 8), 4);    // fills the window
  EXPECT_EQ(tokens_read_ahead(5, 5, 8), 7);    // and goes on with its last 4, of which 3 are read again
  EXPECT_EQ(tokens_read_ahead(5, 9, 8), 7);    // until the window is full again
  EXPECT_EQ(tokens_read_ahead(5, 10, 8), 10);  // and so on
  EXPECT_EQ(tokens_read_ahead(3, 9, 1), 0);
}

TEST(Sample, SameSeedDrawsTheSameText) {
  const GenerationProgram program = hand_written(Reads::window);
  const auto executor = successor_model(program);
  const SampleOptions hot{"A", 40, 10.0, 1};
  SampleOptions other = hot;
  other.seed = 2;
  EXPECT_EQ(sample_text(*executor, program, hot), sample_text(*executor, program, hot));
  EXPECT_NE(sample_text(*executor, program, hot), sample_text(*executor, program, other));
}

TEST(Sample, PickFollowsTheSoftmax) {
  const std::vector<float> logits{0.0f, std::log(3.0f), -1e9f};  // probabilities 1/4, 3/4, 0
  const auto pick = [](const std::vector<float>& of, double temperature, double uniform) {
    return draw_token(of, {.temperature = temperature}, uniform);
  };
  EXPECT_EQ(pick(logits, 1.0, 0.0), 0);
  EXPECT_EQ(pick(logits, 1.0, 0.249), 0);
  EXPECT_EQ(pick(logits, 1.0, 0.251), 1);
  EXPECT_EQ(pick(logits, 1.0, 0.9999999), 1);
  EXPECT_EQ(pick(logits, 0.0, 0.0), 1);
  EXPECT_EQ(pick(std::vector<float>{5, 5}, 0.0, 0.9), 0);
}

TEST(Sample, EndsAtATokenAtASignalAndDrawsOnlyWhatItMay) {
  const GenerationProgram program = hand_written(Reads::one_token);
  const auto executor = successor_model(program);
  const std::vector<int32_t> prompt = {'A'};
  const SamplingOptions greedy{.temperature = 0};
  const Generation ended = generate_tokens(*executor, program, prompt, {.tokens = 9, .sampling = greedy, .end = 'D'});
  EXPECT_THAT(ended.tokens, ElementsAre('B', 'C', 'D'));
  EXPECT_TRUE(ended.complete);
  const Generation below =
      generate_tokens(*executor, program, prompt, {.tokens = 4, .sampling = greedy, .drawn_below = 'C'});
  EXPECT_THAT(below.tokens, ElementsAre('B', 0, 1, 2));  // of logits that are all alike the lowest
  const InterruptGuard guard;
  int told = 0;
  const Generation stopped =
      generate_tokens(*executor, program, prompt, {.tokens = 9, .sampling = greedy}, [&](int32_t token) {
        EXPECT_EQ(token, 'B' + told);
        if (++told == 2) std::raise(SIGINT);
      });
  EXPECT_THAT(stopped.tokens, ElementsAre('B', 'C'));
  EXPECT_FALSE(stopped.complete);
}

TEST(Sample, PrintsOneLineOfAscii) { EXPECT_EQ(printable("a\n\\b\x01\xc3\x7f~"), "a\\n\\\\b\\x01\\xc3\\x7f~"); }

}  // namespace
}  // namespace hetsynth
