// A LLaMA-style decoder (Touvron et al. 2023): RMSNorm before each part, rotary positions, grouped-query attention
// (Ainslie et al. 2023), SwiGLU (Shazeer 2020), no biases.
//   hetsynth run llama.cpp --set size=tiny
// Model: TinyLlama 1.1B | 1100048384 parameters
// Model: LLaMA 7B | 6738415616 parameters | size=7B
// Model: Llama 3 8B | 8030261248 parameters | size=8B
#include <cmath>

#include "hetsynth/hetsynth.h"
using namespace hetsynth;

struct Size {
  int64_t layers, heads, key_heads, width, hidden, vocabulary, length, batch;
  double base;
};

Tensor weight(const std::string& name, const Dims& shape) { return parameter(name, shape, normal(0.02)); }

Tensor norm(const std::string& name, Tensor x) { return rms_norm(x, parameter(name, {x.size(-1)}, ones()), 1e-5); }

/// Queries in groups: every group of heads shares the key and value of one head.
Tensor attention(const std::string& name, Tensor x, const Size& s) {
  int64_t head = s.width / s.heads, group = s.heads / s.key_heads;
  Tensor query = einsum("btc,chd->bthd", x, weight(name + ".query", {s.width, s.heads, head}));
  Tensor key = einsum("btc,ckd->btkd", x, weight(name + ".key", {s.width, s.key_heads, head}));
  Tensor value = einsum("btc,ckd->btkd", x, weight(name + ".value", {s.width, s.key_heads, head}));
  query = reshape(rotary(query, 1, s.base), {x.size(0), x.size(1), s.key_heads, group, head});
  key = rotary(key, 1, s.base);
  Tensor scores = causal_mask(einsum("btkgd,bskd->bkgts", query, key) * (1 / std::sqrt(double(head))));
  Tensor mixed = einsum("bkgts,bskd->btkgd", softmax(scores, -1), value);
  mixed = reshape(mixed, {x.size(0), x.size(1), s.heads, head});
  return einsum("bthd,hdc->btc", mixed, weight(name + ".out", {s.heads, head, s.width}));
}

Tensor swiglu(const std::string& name, Tensor x, const Size& s) {
  Tensor gate = silu(matmul(x, weight(name + ".gate", {s.width, s.hidden})));
  Tensor up = matmul(x, weight(name + ".up", {s.width, s.hidden}));
  return matmul(gate * up, weight(name + ".down", {s.hidden, s.width}));
}

void model() {
  Size s = choice<Size>("size", "1.1B",
                        {{"1.1B", {22, 32, 4, 2048, 5632, 32000, 2048, 64, 1e4}},
                         {"7B", {32, 32, 32, 4096, 11008, 32000, 2048, 64, 1e4}},
                         {"8B", {32, 32, 8, 4096, 14336, 128256, 2048, 64, 5e5}},
                         {"405B", {126, 128, 8, 16384, 53248, 128256, 8192, 2048, 5e5}},
                         {"tiny", {2, 4, 2, 32, 48, 256, 16, 6, 1e4}}},
                        "published sizes, or tiny");
  int64_t batch = option("batch", s.batch, "sequences per step");
  double lr = option("lr", 4e-4, "learning rate after warm-up");

  auto [tokens, targets] = token_batch(batch, s.length, s.vocabulary);
  Tensor x = embedding(weight("tokens", {s.vocabulary, s.width}), tokens);
  for (int64_t i = 0; i < s.layers; ++i) {
    std::string layer = "layer" + std::to_string(i);
    x = checkpoint([&] {  // at these lengths activations take more memory than parameters
      Tensor mixed = x + attention(layer + ".attention", norm(layer + ".norm1", x), s);
      return mixed + swiglu(layer + ".mlp", norm(layer + ".norm2", mixed), s);
    });
  }
  Tensor logits = matmul(norm("norm", x), weight("head", {s.width, s.vocabulary}));
  output("logits", logits);
  minimize(cross_entropy(logits, targets),
           AdamW{.learning_rate = lr, .beta2 = 0.95, .weight_decay = 0.1, .warmup_steps = 10, .clip_norm = 1});
}
