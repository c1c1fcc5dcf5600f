// BERT-MoE: the encoder of BERT-Base with experts in place of every second feed-forward part, two for each token
// (GShard, Lepikhin et al. 2021), trained to fill masked tokens.
//   hetsynth run bert_moe.cpp --set size=tiny
// Model: BERT-MoE
#include <cmath>

#include "hetsynth/hetsynth.h"
using namespace hetsynth;

struct Size {
  int64_t layers, heads, width, experts, vocabulary, length, batch;
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

Tensor attention(const std::string& name, Tensor x, const Size& s) {
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
  Tensor mixed = einsum("bhts,bshd->bthd", softmax(scores, -1), value);
  Tensor weight = parameter(name + ".out.weight", {s.heads, head, s.width}, normal(0.02));
  Tensor bias = parameter(name + ".out.bias", {s.width}, zeros());
  return einsum("bthd,hdc->btc", mixed, weight) + bias;
}

/// b sequences, t tokens, e experts, p places in an expert's queue, c features, f hidden features.
Tensor mixture(const std::string& name, Tensor x, const Size& s, double capacity, Tensor* balance) {
  Tensor gate = parameter(name + ".gate", {s.width, s.experts}, normal(0.02));
  Routing routing = top2_gating(matmul(x, gate), capacity);
  *balance = balance->defined() ? *balance + routing.balance_loss : routing.balance_loss;
  Tensor up = parameter(name + ".up", {s.experts, s.width, 4 * s.width}, normal(0.02));
  Tensor down = parameter(name + ".down", {s.experts, 4 * s.width, s.width}, normal(0.02));
  Tensor hidden = gelu(einsum("bepc,ecf->bepf", expert_dispatch(x, routing), up));
  return expert_combine(einsum("bepf,efc->bepc", hidden, down), routing);
}

void model() {
  Size s =
      choice<Size>("size", "base", {{"base", {12, 12, 768, 16, 30522, 128, 256}}, {"tiny", {2, 2, 32, 4, 256, 16, 6}}},
                   "published sizes, or tiny");
  int64_t batch = option("batch", s.batch, "sequences per step");
  s.experts = option("experts", s.experts, "experts in each mixture");
  double capacity = option("capacity_factor", 1.25, "places in the experts' queues for each token's choice");
  double masked_share = option("masked", 0.15, "share of tokens to fill in");
  double lr = option("lr", 1e-4, "learning rate after warm-up");

  auto [tokens, next_tokens] = token_batch(batch, s.length, s.vocabulary);
  Tensor seen = dropout(full({batch, s.length}, 1), masked_share) * (1 - masked_share);  // 1: seen, 0: masked
  Tensor words = parameter("words", {s.vocabulary, s.width}, normal(0.02));
  Tensor positions = parameter("positions", {s.length, s.width}, normal(0.02));
  Tensor seen_column = reshape(seen, {batch, s.length, 1});
  Tensor mask_word = slice(words, 0, 103, 104);  // the token [MASK]
  Tensor x = embedding(words, tokens) * seen_column + mask_word * (1 - seen_column);
  x = norm("embedding.norm", x + positions);
  Tensor balance;
  for (int64_t i = 0; i < s.layers; ++i) {
    std::string layer = "layer" + std::to_string(i);
    x = norm(layer + ".norm1", x + attention(layer + ".attention", x, s));
    Tensor answer = i % 2 == 1 ? mixture(layer + ".moe", x, s, capacity, &balance)
                               : linear(layer + ".down", gelu(linear(layer + ".up", x, 4 * s.width)), s.width);
    x = norm(layer + ".norm2", x + answer);
  }
  Tensor logits = einsum("btc,vc->btv", norm("head.norm", gelu(linear("head.transform", x, s.width))), words);
  Tensor masked = 1 - seen;
  Tensor word_loss = -sum(pick(log_softmax(logits, -1), tokens) * masked) / maximum(sum(masked), 1);
  minimize(word_loss + 0.01 * balance, AdamW{.learning_rate = lr, .warmup_steps = 10, .clip_norm = 1});
}
