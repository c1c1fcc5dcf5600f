// Programs that continue a text: over the reals, the logits of one position are those of the whole forward pass,
// whether the whole window is read or one token after the other.
#include "dsl/transform/generation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "dsl/ir/interpreter.h"
#include "hetsynth/hetsynth.h"
#include "tests/support/error_of.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t length = 6, vocabulary = 11, width = 8, heads = 4;

Program forward_of(const std::function<void()>& builder) {
  Trace trace("model.cpp", {{"evaluation", "1"}});
  run_builder(trace, builder);
  return logits_program(trace);
}

Tensor weight(const std::string& name, const Dims& shape) { return parameter(name, shape, normal(0.5)); }

/// What a model is made of besides attention: embedding before and logits behind `middle`.
void decoder(const std::function<Tensor(Tensor)>& middle, int64_t batch = 1) {
  auto [tokens, targets] = token_batch(batch, length, vocabulary);
  Tensor x = middle(embedding(weight("tokens.table", {vocabulary, width}), tokens));
  Tensor logits = matmul(x, weight("head", {width, vocabulary}));
  output("logits", logits);
  minimize(cross_entropy(logits, targets), SGD{.learning_rate = 0.1});
}

Tensor heads_of(const std::string& name, Tensor x, int64_t count = heads) {
  return einsum("btc,chd->bthd", x, weight(name, {width, count, 4}));
}

struct Mixing {
  bool causal = true, turned = false;
  int64_t key_heads = heads;
  Tensor bias = {};
};

Tensor mixed(const std::string& name, Tensor x, const Mixing& how = {}) {
  Tensor query = heads_of(name + ".q", x), key = heads_of(name + ".k", x, how.key_heads),
         value = heads_of(name + ".v", x, how.key_heads);
  if (how.turned) query = rotary(query, 1), key = rotary(key, 1, 1e4);
  Tensor out = attention(query, key, value, {.causal = how.causal, .bias = how.bias});
  return x + einsum("bthd,hdc->btc", out, weight(name + ".out", {heads, 4, width}));
}

/// As GPT-2 has it: learned positions, two blocks, dropout that evaluation leaves out.
void gpt(int64_t batch = 1) {
  decoder(
      [](Tensor x) {
        x = dropout(x + weight("positions", {length, width}), 0.5);
        for (const char* name : {"h0", "h1"}) {
          x = mixed(name, layernorm(x, weight(std::string(name) + ".gain", {width}),
                                    weight(std::string(name) + ".bias", {width})));
          x = x + matmul(gelu(matmul(x, weight(std::string(name) + ".up", {width, 5}))),
                         weight(std::string(name) + ".down", {5, width}));
        }
        return x;
      },
      batch);
}

/// Values by the leaves' names, the same for all programs of a model. `position`: of a program that reads a block, the
/// block's number.
Array value_of(const Node& leaf, const std::vector<int>& window, int64_t position, int64_t block = 1) {
  Array array(leaf.type.shape);
  if (leaf.kind == NodeKind::input && leaf.type.shape.empty()) {
    array.values[0] = double(position);
  } else if (leaf.kind == NodeKind::input) {
    const bool part = leaf.type.shape[1] == block;
    for (size_t i = 0; i < array.values.size(); ++i) {
      const size_t at = part ? size_t(position * block) + i : i;
      array.values[i] = at < window.size() && (!part || i < size_t(block)) ? window[at] : int(i % 5);
    }
  } else {
    for (size_t i = 0; i < array.values.size(); ++i) array.values[i] = initial_value(leaf, 5, int64_t(i));
  }
  return array;
}

Bindings leaves_of(const Program& program, const std::vector<int>& window, int64_t position, int64_t block = 1) {
  Bindings out;
  for (const Node& node : program.nodes)
    if (node.leaf()) out[node.id] = value_of(node, window, position, block);
  return out;
}

using Row = std::vector<double>;

Row first_row(const Array& logits, int64_t row = 0) {
  const auto begin = logits.values.begin() + row * vocabulary;
  return {begin, begin + vocabulary};
}

Row logits_of_forward(const Program& forward, const std::vector<int>& window, int64_t position) {
  return first_row(interpret(forward, leaves_of(forward, window, position), {})[size_t(forward.outputs[0].node)],
                   position);
}

Row logits_of_window(const GenerationProgram& g, const std::vector<int>& window, int64_t position) {
  return first_row(interpret(g.program, leaves_of(g.program, window, position), {})[size_t(g.logits)]);
}

/// What programs remember, by the states' names.
using Memory = std::map<std::string, Array>;

Memory filled_with(const GenerationProgram& g, double value) {
  Memory out;
  for (const NodeId state : g.remembered) out.emplace(g.program[state].name, Array(g.program[state].type.shape, value));
  return out;
}

/// Runs the program at one position, or of one block.
std::vector<Array> run_at(const GenerationProgram& g, const std::vector<int>& window, int64_t number, Memory& memory) {
  Bindings leaves = leaves_of(g.program, window, number, g.block);
  for (const NodeId state : g.remembered) leaves[state] = memory.at(g.program[state].name);
  std::vector<Array> values = interpret(g.program, leaves, {});
  for (const Update& update : g.program.updates)
    memory.insert_or_assign(g.program[update.target].name, values[size_t(update.value)]);
  return values;
}

/// Runs the program for every position from `begin` on in turn.
std::vector<Row> logits_by_token(const GenerationProgram& g, const std::vector<int>& window, int64_t begin,
                                 Memory memory) {
  std::vector<Row> out;
  for (int64_t at = begin; at < int64_t(window.size()); ++at)
    out.push_back(first_row(run_at(g, window, at, memory)[size_t(g.logits)]));
  return out;
}

double difference(const Row& a, const Row& b) {
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::fabs(a[i] - b[i]));
  return worst;
}

const std::vector<int> text_tokens = {7, 2, 10, 2, 0, 5};

void expect_same_logits(const std::function<void()>& builder, size_t remembered) {
  const Program forward = forward_of(builder);
  const GenerationProgram window = window_program(forward);
  const RememberingProgram found = remembering_program(forward);
  ASSERT_TRUE(found.program) << found.reason;
  EXPECT_EQ(found.program->remembered.size(), remembered);
  EXPECT_FALSE(found.program->reads_window);
  EXPECT_TRUE(window.remembered.empty());
  // The states hold rubbish before the first position.
  const std::vector<Row> one_by_one = logits_by_token(*found.program, text_tokens, 0, filled_with(*found.program, 0.7));
  for (size_t at = 0; at < text_tokens.size(); ++at) {
    const std::vector<int> seen(text_tokens.begin(), text_tokens.begin() + int64_t(at) + 1);
    const Row expected = logits_of_forward(forward, seen, int64_t(at));
    EXPECT_LT(difference(logits_of_window(window, seen, int64_t(at)), expected), 1e-12) << at;
    EXPECT_LT(difference(one_by_one[at], expected), 1e-12) << at;
    EXPECT_GT(difference(expected, logits_of_forward(forward, seen, at == 0 ? 1 : 0)), 1e-3) << at;  // positions differ
  }
}

/// A text is read in blocks up to any position, behind which the last block has other tokens, and token by token from
/// there on.
void expect_same_logits_after_blocks(const std::function<void()>& builder) {
  const Program forward = forward_of(builder);
  const RememberingProgram by_token = remembering_program(forward);
  ASSERT_TRUE(by_token.program) << by_token.reason;
  for (const int64_t block : {int64_t{2}, int64_t{3}, length}) {
    const GenerationProgram blocks = filling_program(forward, block);
    EXPECT_EQ(blocks.block, block);
    EXPECT_EQ(blocks.program[blocks.tokens].type.shape[1], block);
    EXPECT_TRUE(blocks.program.outputs.empty());
    for (int64_t read = 1; read < length; ++read) {
      const std::vector<int> text(text_tokens.begin(), text_tokens.begin() + read);
      Memory memory = filled_with(*by_token.program, 0.7);
      ASSERT_EQ(filled_with(blocks, 0.7).size(), memory.size());
      for (int64_t number = 0; number * block < read; ++number) run_at(blocks, text, number, memory);
      const std::vector<Row> rest = logits_by_token(*by_token.program, text_tokens, read, memory);
      for (int64_t at = read; at < length; ++at)
        EXPECT_LT(difference(rest[size_t(at - read)], logits_of_forward(forward, text_tokens, at)), 1e-12)
            << block << " " << read << " " << at;
    }
  }
}

TEST(Generation, RemembersKeysAndValues) {
  expect_same_logits([] { gpt(); }, 4);
}

TEST(Generation, BlocksOfTokensAreRememberedAlike) {
  expect_same_logits_after_blocks([] { gpt(); });
  expect_same_logits_after_blocks([] { gpt(3); });
  expect_same_logits_after_blocks([] {
    mixed_precision("bf16");
    gpt();
  });
  // Rotary angles go by the position, as does ALiBi; keys that several heads share.
  expect_same_logits_after_blocks([] {
    decoder([](Tensor x) {
      Tensor rows = to_float(positions({length, length}, 0)), columns = to_float(positions({length, length}, 1));
      x = mixed("h0", x, {.turned = true, .key_heads = 2});
      x = mixed("h1", x, {.bias = (columns - rows) * 0.3});
      return mixed("h2", x, {.turned = true, .bias = weight("bias", {heads, length, length})});
    });
  });
}

TEST(Generation, ABlockDividesTheWindow) {
  EXPECT_EQ(filling_block(256), 64);
  EXPECT_EQ(filling_block(48), 48);
  EXPECT_EQ(filling_block(150), 50);
  EXPECT_EQ(filling_block(1), 1);
  EXPECT_EQ(filling_block(131), 1);  // a prime beyond the largest block
}

TEST(Generation, OfABatchTheFirstSample) {
  expect_same_logits([] { gpt(3); }, 4);
}

TEST(Generation, TurnsByThePositionAndSharesKeys) {
  expect_same_logits(
      [] {
        decoder(
            [](Tensor x) { return mixed("h1", mixed("h0", x, {.turned = true, .key_heads = 2}), {.turned = true}); });
      },
      4);
}

TEST(Generation, BiasesThatGoByThePositions) {
  expect_same_logits(
      [] {
        decoder([](Tensor x) {
          Tensor learned = weight("bias", {heads, length, length});
          Tensor rows = to_float(positions({length, length}, 0)), columns = to_float(positions({length, length}, 1));
          return mixed("h1", mixed("h0", x, {.bias = learned}), {.bias = (columns - rows) * 0.3});  // as ALiBi
        });
      },
      4);
}

TEST(Generation, InBf16) {
  expect_same_logits(
      [] {
        mixed_precision("bf16");
        gpt();
      },
      4);
}

TEST(Generation, ModelsWithoutAttentionRememberNothing) {
  expect_same_logits([] { decoder([](Tensor x) { return tanh(x + weight("p", {length, width})); }); }, 0);
}

TEST(Generation, LogitsOfRowsInOneDimension) {
  expect_same_logits(
      [] {
        auto [tokens, targets] = token_batch(1, length, vocabulary);
        Tensor x = mixed("h", embedding(weight("table", {vocabulary, width}), tokens) + weight("p", {length, width}));
        Tensor logits = matmul(reshape(x, {length, width}), weight("head", {width, vocabulary}));
        output("logits", logits);
        minimize(cross_entropy(logits, reshape(targets, {length})), SGD{});
      },
      2);
}

/// Models of which no single position can be computed: the reason, and whole windows all the same.
void expect_whole_windows(const std::function<void()>& builder, const std::string& reason) {
  const Program forward = forward_of(builder);
  const RememberingProgram found = remembering_program(forward);
  EXPECT_FALSE(found.program);
  EXPECT_THAT(found.reason, HasSubstr(reason));
  const GenerationProgram window = window_program(forward);
  EXPECT_TRUE(window.reads_window);
  for (const int64_t at : {int64_t{0}, int64_t{3}, length - 1})
    EXPECT_LT(difference(logits_of_window(window, text_tokens, at), logits_of_forward(forward, text_tokens, at)),
              1e-12);
}

TEST(Generation, SaysWhatLooksAtOtherPositions) {
  expect_whole_windows([] { decoder([](Tensor x) { return mixed("h", x, {.causal = false}); }); },
                       "reads other positions of");
  expect_whole_windows([] { decoder([](Tensor x) { return x + mean(x, {1}, true); }); }, "reads other positions of");
  expect_whole_windows([] { decoder([](Tensor x) { return x + cumsum(x, 1); }); }, "reads other positions of");
  expect_whole_windows([] { decoder([](Tensor x) { return pad(slice(x, 1, 0, length - 1), 1, 1, 0) + x; }); },
                       "is not computed position by position");
  expect_whole_windows([] { decoder([](Tensor x) { return flip(mixed("h", x), 1); }); },
                       "is not computed position by position");
  expect_whole_windows([] { decoder([](Tensor x) { return lstm(x, lstm_weights("lstm", width, width)); }); },
                       "loop over time steps");
}

/// A mask that hides the past instead of the future, and one that hides nothing that is far away.
TEST(Generation, TakesNoOtherMaskForACausalOne) {
  for (const bool past : {true, false})
    expect_whole_windows(
        [&] {
          decoder([&](Tensor x) {
            Tensor rows = positions({length, length}, 0), columns = positions({length, length}, 1);
            Tensor hidden = past ? columns < rows : rows + 2 < columns;
            Tensor scores = einsum("bthd,bshd->bhts", heads_of("q", x), heads_of("k", x));
            Tensor weights = softmax(where(hidden, -1e9, scores), -1);
            return x + einsum("bhts,bshd,hdc->btc", weights, heads_of("v", x), weight("o", {heads, 4, width}));
          });
        },
        "reads other positions of");
}

TEST(Generation, OfTheNextTokenAloneReadsWholeWindows) {
  const Program forward = forward_of([] {
    auto [bytes, next] = text_next_byte(1, length);
    Tensor x = reshape(embedding(weight("table", {256, 3}), bytes), {1, length * 3});
    Tensor logits = matmul(x, weight("head", {length * 3, 256}));
    output("logits", logits);
    minimize(cross_entropy(logits, next), SGD{});
  });
  const GenerationProgram window = window_program(forward);
  EXPECT_EQ(window.position, -1);
  EXPECT_TRUE(window.model.bytes);
  EXPECT_THAT(remembering_program(forward).reason, HasSubstr("after a whole window"));
}

TEST(Generation, ComputesNothingOfPositionsThatNothingLooksAt) {
  const GenerationProgram window = window_program(forward_of([] { gpt(); }));
  EXPECT_EQ(window.program[window.logits].type.shape, (Shape{1, 1, vocabulary}));
  // The first block once, of all positions, as the keys of the second one need them; of the second block one.
  int found = 0;
  for (const Node& node : window.program.nodes)
    for (const NodeId input : node.inputs)
      for (const auto& [up, rows] : {std::pair("h0.up", length), std::pair("h1.up", int64_t{1})}) {
        if (window.program[input].name != up) continue;
        EXPECT_EQ(node.type.shape, (Shape{1, rows, 5})) << up;
        ++found;
      }
  EXPECT_EQ(found, 2);
}

TEST(Generation, ModelsThatGiveNoLogitsOfTokensAreRefused) {
  const auto refusal = [](const std::function<void()>& builder) {
    return error_of([&] { language_model(forward_of(builder)); });
  };
  const auto [without, images, two, shape] =
      std::tuple{refusal([] {
                   auto [tokens, targets] = token_batch(1, length, vocabulary);
                   Tensor x = embedding(weight("table", {vocabulary, vocabulary}), tokens);
                   output("hidden", x);
                   minimize(cross_entropy(x, targets), SGD{});
                 }),
                 refusal([] {
                   auto [x, labels] = synthetic_batch(2, 3, 4);
                   Tensor logits = matmul(x, weight("w", {3, 4}));
                   output("logits", logits);
                   minimize(cross_entropy(logits, labels), SGD{});
                 }),
                 refusal([] {
                   Tensor a = input("a", {1, length}, DType::i32, {.classes = 5}),
                          b = input("b", {1, length}, DType::i32, {.classes = 5});
                   Tensor logits = embedding(weight("w", {5, 4}), a + b);
                   output("logits", logits);
                   minimize(mean(logits), SGD{});
                 }),
                 refusal([] {
                   auto [tokens, targets] = token_batch(1, length, vocabulary);
                   Tensor logits = matmul(reshape(embedding(weight("table", {vocabulary, 4}), tokens), {2, length * 2}),
                                          weight("w", {length * 2, 3}));
                   output("logits", logits);
                   minimize(mean(logits), SGD{});
                 })};
  EXPECT_THAT(without,
              AllOf(HasSubstr("does not say what its logits over tokens are"), HasSubstr("output(\"logits\", x)"),
                    HasSubstr("outputs hidden"), HasSubstr("add the line")));
  EXPECT_THAT(images, AllOf(HasSubstr("more than one window of tokens"), HasSubstr("samples : f32[2,3]")));
  EXPECT_THAT(two, AllOf(HasSubstr("more than one window of tokens"), HasSubstr("beside a")));
  EXPECT_THAT(shape, AllOf(HasSubstr("do not fit the window"), HasSubstr("[1, 6, classes]"), HasSubstr("f32[2,3]")));
}

}  // namespace
}  // namespace hetsynth
