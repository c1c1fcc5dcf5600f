// A mixture of 64 small experts with low-rank keys and values (27 layers, after DeepSeek-V2-Lite, DeepSeek-AI 2024): a
// program unlike those of examples/, to time planning with (docs/planner-parameters.md).
#include <cmath>

#include "hetsynth/hetsynth.h"
using namespace hetsynth;

Tensor weight(const std::string& name, const Dims& shape) { return parameter(name, shape, normal(0.02)); }
Tensor norm(const std::string& name, Tensor x) { return rms_norm(x, parameter(name, {x.size(-1)}, ones()), 1e-5); }

/// Keys and values are made from `rank` features that all heads share.
Tensor attention(const std::string& name, Tensor x, int64_t heads, int64_t head, int64_t rank) {
  int64_t width = x.size(-1);
  Tensor query = rotary(einsum("btc,chd->bthd", x, weight(name + ".query", {width, heads, head})), 1, 1e4);
  Tensor low = norm(name + ".norm", matmul(x, weight(name + ".down", {width, rank})));
  Tensor key = rotary(einsum("btr,rhd->bthd", low, weight(name + ".key", {rank, heads, head})), 1, 1e4);
  Tensor value = einsum("btr,rhd->bthd", low, weight(name + ".value", {rank, heads, head}));
  Tensor scores = causal_mask(einsum("bthd,bshd->bhts", query, key) * (1 / std::sqrt(double(head))));
  Tensor mixed = einsum("bhts,bshd->bthd", softmax(scores, -1), value);
  return einsum("bthd,hdc->btc", mixed, weight(name + ".out", {heads, head, width}));
}

/// The gated feed-forward part.
Tensor ffn(const std::string& name, Tensor x, int64_t hidden) {
  int64_t w = x.size(-1);
  Tensor gate = silu(matmul(x, weight(name + ".w1", {w, hidden})));
  return matmul(gate * matmul(x, weight(name + ".w3", {w, hidden})), weight(name + ".w2", {hidden, w}));
}

Tensor mixture(const std::string& name, Tensor x, int64_t experts, int64_t hidden, double capacity, Tensor* balance) {
  int64_t w = x.size(-1);
  Tensor logits = matmul(x, weight(name + ".gate", {w, experts}));
  Routing routing = top2_gating(logits, capacity);
  *balance = balance->defined() ? *balance + routing.balance_loss : routing.balance_loss;
  Tensor queues = expert_dispatch(x, routing);
  Tensor gate = silu(einsum("bepc,ecf->bepf", queues, weight(name + ".w1", {experts, w, hidden})));
  Tensor up = einsum("bepc,ecf->bepf", queues, weight(name + ".w3", {experts, w, hidden}));
  Tensor answers = einsum("bepf,efc->bepc", gate * up, weight(name + ".w2", {experts, hidden, w}));
  return expert_combine(answers, routing) + ffn(name + ".shared", x, 2 * hidden);
}

void model() {
  int64_t layers = option("layers", 27, "layers"), width = option("width", 2048, "features"),
          batch = option("batch", 8, "sequences per step"), length = option("length", 2048, "tokens per sequence");
  auto [tokens, targets] = token_batch(batch, length, 32000);
  Tensor x = embedding(weight("tokens", {32000, width}), tokens);
  Tensor balance;
  for (int64_t i = 0; i < layers; ++i) {
    std::string layer = "layer" + std::to_string(i);
    x = checkpoint([&] {
      Tensor mixed = x + attention(layer + ".attention", norm(layer + ".norm1", x), 16, 128, 512);
      Tensor n = norm(layer + ".norm2", mixed);
      if (i == 0) return mixed + ffn(layer + ".ffn", n, 10944);
      return mixed + mixture(layer + ".moe", n, 64, 1408, 1.25, &balance);
    });
  }
  minimize(cross_entropy(matmul(norm("norm", x), weight("head", {width, 32000})), targets) + balance * 0.001,
           AdamW{.learning_rate = 4e-4, .beta2 = 0.95, .weight_decay = 0.1, .warmup_steps = 10, .clip_norm = 1});
}
