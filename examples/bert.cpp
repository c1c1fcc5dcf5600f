// BERT (Devlin et al. 2019): post-norm encoder, trained to fill masked tokens and to say whether two segments follow
// each other. The huge sizes are those of Galvatron (Miao et al. 2022).
//   hetsynth run bert.cpp --set size=tiny
// Model: BERT-Base | 109482240 parameters without head. | size=base
// Model: BERT-Huge-32 | 672M parameters | size=huge-32
// Model: BERT-Huge-48 | 987M parameters | size=huge-48
#include <cmath>

#include "hetsynth/hetsynth.h"
using namespace hetsynth;

struct Size {
  int64_t layers, heads, width, vocabulary, length, batch;
};

Tensor norm(const std::string& name, Tensor x) {
  Tensor gain = parameter(name + ".gain", {x.size(-1)}, ones());
  Tensor bias = parameter(name + ".bias", {x.size(-1)}, zeros());
  return layernorm(x, gain, bias, 1e-12);
}

Tensor linear(const std::string& name, Tensor x, int64_t outputs) {
  Tensor weight = parameter(name + ".weight", {x.size(-1), outputs}, normal(0.02));
  Tensor bias = parameter(name + ".bias", {outputs}, zeros());
  return matmul(x, weight) + bias;
}

/// Every token sees every other.
Tensor attention(const std::string& name, Tensor x, const Size& s, double p) {
  int64_t head = s.width / s.heads;
  auto project = [&](const std::string& part) {
    Tensor weight = parameter(name + part + ".weight", {s.width, s.heads, head}, normal(0.02));
    Tensor bias = parameter(name + part + ".bias", {s.heads, head}, zeros());
    return einsum("btc,chd->bthd", x, weight) + bias;
  };
  Tensor query = project(".query");
  Tensor key = project(".key");
  Tensor value = project(".value");
  Tensor scores = einsum("bthd,bshd->bhts", query, key) * (1 / std::sqrt(double(head)));
  Tensor mixed = einsum("bhts,bshd->bthd", dropout(softmax(scores, -1), p), value);
  Tensor weight = parameter(name + ".out.weight", {s.heads, head, s.width}, normal(0.02));
  Tensor bias = parameter(name + ".out.bias", {s.width}, zeros());
  return einsum("bthd,hdc->btc", mixed, weight) + bias;
}

void model() {
  Size s = choice<Size>("size", "base",
                        {{"base", {12, 12, 768, 30522, 512, 64}},
                         {"large", {24, 16, 1024, 30522, 512, 64}},
                         {"huge-32", {32, 16, 1280, 30522, 512, 64}},
                         {"huge-48", {48, 16, 1280, 30522, 512, 64}},
                         {"tiny", {2, 2, 32, 256, 16, 6}}},
                        "published sizes, or tiny");
  int64_t batch = option("batch", s.batch, "sequences per step");
  double p = option("dropout", 0.1, "share of features dropped");
  double masked_share = option("masked", 0.15, "share of tokens to fill in");
  double lr = option("lr", 1e-4, "learning rate after warm-up");

  auto [tokens, is_next] = labelled_tokens(batch, s.length, s.vocabulary, 2);
  // 1 / (1 - share) where a token is seen and 0 where it is masked: what dropout makes of ones.
  Tensor seen = dropout(full({batch, s.length}, 1), masked_share) * (1 - masked_share);
  Tensor masked = 1 - seen;

  Tensor words = parameter("words", {s.vocabulary, s.width}, normal(0.02));
  Tensor positions = parameter("positions", {s.length, s.width}, normal(0.02));
  Tensor segments = parameter("segments", {2, s.width}, normal(0.02));
  Tensor mask_word = slice(words, 0, 103, 104);  // the token [MASK]
  Tensor seen_column = reshape(seen, {batch, s.length, 1});
  Tensor x = embedding(words, tokens) * seen_column + mask_word * (1 - seen_column);
  Tensor first = broadcast(slice(segments, 0, 0, 1), {s.length / 2, s.width});
  Tensor second = broadcast(slice(segments, 0, 1, 2), {s.length - s.length / 2, s.width});
  x = dropout(norm("embedding.norm", x + positions + concat({first, second}, 0)), p);
  for (int64_t i = 0; i < s.layers; ++i) {
    std::string layer = "layer" + std::to_string(i);
    x = norm(layer + ".norm1", x + dropout(attention(layer + ".attention", x, s, p), p));
    Tensor hidden = gelu(linear(layer + ".up", x, 4 * s.width));
    x = norm(layer + ".norm2", x + dropout(linear(layer + ".down", hidden, s.width), p));
  }
  Tensor pooled = tanh(linear("pooler", reshape(slice(x, 1, 0, 1), {batch, s.width}), s.width));

  Tensor transformed = norm("head.norm", gelu(linear("head.transform", x, s.width)));
  Tensor logits = einsum("btc,vc->btv", transformed, words) + parameter("head.bias", {s.vocabulary}, zeros());
  Tensor word_loss = -sum(pick(log_softmax(logits, -1), tokens) * masked) / maximum(sum(masked), 1);
  Tensor next_loss = cross_entropy(linear("head.next", pooled, 2), is_next);
  minimize(word_loss + next_loss, AdamW{.learning_rate = lr, .warmup_steps = 10, .clip_norm = 1});
}
