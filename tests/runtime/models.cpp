#include "tests/runtime/models.h"

#include <cmath>

#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "dsl/transform/language_model.h"
#include "hetsynth/hetsynth.h"
#include "tests/runtime/data_files.h"
#include "tests/runtime/temporary_folder.h"

namespace hetsynth::testing {
namespace {

void mlp_model() {
  constexpr int64_t batch = 10, context = 4, width = 6, hidden = 15;
  auto [bytes, next] = text_next_byte(batch, context);
  Tensor table = parameter("table", {256, width}, normal(0.3));
  Tensor x = reshape(embedding(table, bytes), {batch, context * width});
  Tensor w1 = parameter("w1", {context * width, hidden}, normal(0.2));
  Tensor h = relu(matmul(x, w1) + parameter("b1", {hidden}, uniform(0.1)));
  Tensor logits = matmul(h, parameter("w2", {hidden, 256}, normal(0.2))) + parameter("b2", {256}, zeros());
  minimize(cross_entropy(logits, next), SGD{.learning_rate = 0.3, .momentum = 0.8});
}

Tensor norm(const std::string& name, Tensor x) {
  return layernorm(x, parameter(name + ".gain", {x.size(-1)}, ones()),
                   parameter(name + ".bias", {x.size(-1)}, zeros()));
}

Tensor attention(Tensor x, int64_t heads) {
  const int64_t width = x.size(-1), head = width / heads;
  const auto project = [&](const char* name) {
    return einsum("btc,chd->bthd", x, parameter(name, {width, heads, head}, normal(0.2)));
  };
  Tensor query = project("query"), key = project("key"), value = project("value");
  Tensor scores = causal_mask(einsum("bthd,bshd->bhts", query, key) * (1 / std::sqrt(double(head))));
  Tensor mixed = einsum("bhts,bshd->bthd", softmax(scores, -1), value);
  return einsum("bthd,hdc->btc", mixed, parameter("out", {heads, head, width}, normal(0.2)));
}

void gpt_model(int64_t batch, double drop) {
  constexpr int64_t seq = 6, width = 12;
  auto [tokens, targets] = text_batch(batch, seq);
  Tensor wte = parameter("wte", {256, width}, normal(0.1));
  Tensor x = dropout(embedding(wte, tokens) + parameter("wpe", {seq, width}, normal(0.1)), drop);
  x = x + attention(norm("norm1", x), 3);
  Tensor up = gelu(matmul(norm("norm2", x), parameter("up", {width, 4 * width}, normal(0.2))));
  x = x + dropout(matmul(up, parameter("down", {4 * width, width}, normal(0.2))), drop);
  Tensor logits = einsum("btc,vc->btv", norm("norm", x), wte);
  output("logits", logits);
  minimize(cross_entropy(logits, targets),
           AdamW{.learning_rate = 1e-2, .weight_decay = 0.1, .warmup_steps = 5, .clip_norm = 1});
}

void recurrent_model() {
  constexpr int64_t batch = 6, seq = 5, width = 7, hidden = 10;
  auto [tokens, targets] = text_batch(batch, seq);
  Tensor x = embedding(parameter("table", {256, width}, normal(0.5)), tokens);
  LstmStates states = lstm_states(x, lstm_weights("lstm", width, hidden));
  Tensor h = gru(states.sequence, gru_weights("gru", hidden, hidden), states.last.c);
  Tensor logits = matmul(h, parameter("w", {hidden, 256}, normal(0.3)));
  minimize(cross_entropy(logits, targets), AdamW{.learning_rate = 2e-2, .clip_norm = 1});
}

/// Every kind of window: padded, strided, grouped, depthwise, dilated, 1 x 1; a shortcut; both kinds of pools.
void cnn_model() {
  constexpr int64_t batch = 7, classes = 4;
  auto [images, labels] = synthetic_images(batch, 3, 11, 10, classes);
  const auto conv = [](const std::string& name, Tensor x, int64_t outputs, int64_t window, Conv2d options) {
    const Dims shape{outputs, x.size(1) / options.groups, window, window};
    return conv2d(x, parameter(name, shape, normal(1 / std::sqrt(double(shape[1] * window * window)))), options);
  };
  const auto channels = [](const std::string& name, Tensor x, Init init) { return parameter(name, {x.size(1)}, init); };
  Tensor x = conv("stem", images, 6, 3, {.stride = 2, .padding = 1});
  x = relu(batchnorm(x, channels("bn.gain", x, ones()), channels("bn.bias", x, zeros())));
  Tensor narrow = conv("grouped", max_pool2d(x, 3, {.stride = 1, .padding = 1}), 6, 3, {.padding = 1, .groups = 2});
  x = x + relu(groupnorm(narrow, 3, channels("gn.gain", x, ones()), channels("gn.bias", x, zeros())));
  x = conv("point", conv("depth", x, 6, 3, {.padding = 2, .dilation = 2, .groups = 6}), 8, 1, {});
  x = max_pool2d(relu(x + parameter("bias", {8, 1, 1}, zeros())), 2);
  x = conv_transpose2d(x, parameter("up", {8, 5, 2, 2}, normal(0.3)), {.stride = 2});
  Tensor features = reshape(adaptive_avg_pool2d(avg_pool2d(x, 3, {.stride = 1, .padding = 1}), 3), {batch, -1});
  Tensor logits = matmul(features, parameter("w", {features.size(1), classes}, normal(0.2)));
  minimize(cross_entropy(logits, labels), SGD{.learning_rate = 0.05, .momentum = 0.8});
}

/// Words that are masked out add nothing to the sentence's mean, and have no label.
void tagger_model() {
  constexpr int64_t batch = 6, length = 5, width = 9, tags = 4;
  Tensor words = input("words", {batch, length}, i32, {.classes = 30});
  Tensor mask = input("mask", {batch, length}, f32, {.lowest = 0, .highest = 1});
  Tensor features = input("features", {batch, 3}, f32);
  Tensor labels = input("labels", {batch, length}, i32, {.classes = tags, .ignored = -100});
  Tensor x = embedding(parameter("table", {30, width}, normal(0.3)), words);
  Tensor kept = x * reshape(mask, {batch, length, 1});
  Tensor sentence = sum(kept, 1) / reshape(sum(mask, 1) + 1e-3, {batch, 1}) +
                    matmul(features, parameter("f", {3, width}, normal(0.3)));
  Tensor h = gelu(einsum("btc,cd->btd", x, parameter("w1", {width, width}, normal(0.3))) +
                  reshape(sentence, {batch, 1, width}));
  Tensor logits = einsum("btc,cd->btd", h, parameter("w2", {width, tags}, normal(0.3)));
  output("logits", logits);
  minimize(cross_entropy(logits, labels, {.ignored_label = -100}), AdamW{.learning_rate = 1e-2});
}

}  // namespace

Program small_tagger() {
  Trace trace("tagger.cpp");
  run_builder(trace, tagger_model);
  return differentiate(trace);
}

std::string tagger_files() {
  static const TemporaryFolder folder;
  static const std::string path = [] {
    constexpr int sentences = 20, length = 5;
    std::string words, mask, labels;
    std::vector<float> features;
    for (int s = 0; s < sentences; ++s) {
      const int own = 2 + s % (length - 1);  // words; the others are padding
      for (int i = 0; i < length; ++i) {
        const int word = (s * s * 7 + i * 11) % 30;
        words += number(static_cast<uint64_t>(i < own ? word : 0), 2);
        mask += number(i < own ? 1 : 0, 1);
        labels += number(static_cast<uint64_t>(i < own ? word % 4 : -100), 8);
      }
      for (int f = 0; f < 3; ++f) features.push_back(static_cast<float>((s * 5 + f * 3) % 7 - 3) / 3);
    }
    folder.write("words.npy", npy_file(npy_dictionary("<u2", "(20, 5)"), words));
    folder.write("mask.npy", npy_file(npy_dictionary("|b1", "(20, 5)"), mask));
    folder.write("features.npy", npy_file(npy_dictionary("<f4", "(20, 3)"), floats(features)));
    folder.write("labels.npy", npy_file(npy_dictionary("<i8", "(20, 5)"), labels));
    return folder.path();
  }();
  return path;
}

Program small_recurrent() {
  Trace trace("recurrent.cpp");
  run_builder(trace, recurrent_model);
  return differentiate(trace);
}

Program small_cnn() {
  Trace trace("cnn.cpp");
  run_builder(trace, cnn_model);
  return differentiate(trace);
}

Program small_mlp() {
  Trace trace("mlp.cpp");
  run_builder(trace, mlp_model);
  return differentiate(trace);
}

Program small_gpt() {
  Trace trace("gpt.cpp");
  run_builder(trace, [] { gpt_model(5, 0.1); });
  return differentiate(trace);
}

Program small_gpt_evaluation() {
  Trace trace("gpt.cpp", {{"evaluation", "1"}});
  run_builder(trace, [] { gpt_model(5, 0.1); });
  return differentiate(trace);
}

Program small_cnn_evaluation() {
  Trace trace("cnn.cpp", {{"evaluation", "1"}});
  run_builder(trace, cnn_model);
  return differentiate(trace);
}

Program small_gpt_forward() {
  Trace trace("gpt.cpp", {{"evaluation", "1"}});
  run_builder(trace, [] { gpt_model(1, 0.1); });
  return logits_program(trace);
}

}  // namespace hetsynth::testing
