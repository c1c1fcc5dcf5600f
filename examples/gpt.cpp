// A GPT on bytes of text: pre-norm blocks, learned positions, tied embeddings (Radford et al. 2019).
//   hetsynth run gpt.cpp --set layers=6 --set width=384
#include <cmath>
#include <string>

#include "hetsynth/hetsynth.h"
using namespace hetsynth;

struct Config {
  int64_t layers, heads, width;
  double dropout;
  bool checkpoint;
};

Tensor norm(const std::string& name, Tensor x) {
  Tensor gain = parameter(name + ".gain", {x.size(-1)}, ones());
  Tensor bias = parameter(name + ".bias", {x.size(-1)}, zeros());
  return layernorm(x, gain, bias);
}

Tensor linear(const std::string& name, Tensor x, int64_t outputs, double deviation = 0.02) {
  Tensor weight = parameter(name + ".weight", {x.size(-1), outputs}, normal(deviation));
  Tensor bias = parameter(name + ".bias", {outputs}, zeros());
  return matmul(x, weight) + bias;
}

/// Causal self-attention. Heads have a dimension of their own from the start, so nothing is transposed.
Tensor attention(const std::string& name, Tensor x, const Config& c) {
  int64_t head = c.width / c.heads;
  auto project = [&](const char* part) {
    Tensor weight = parameter(name + part, {c.width, c.heads, head}, normal(0.02));
    return einsum("btc,chd->bthd", x, weight);
  };
  Tensor query = project(".query");
  Tensor key = project(".key");
  Tensor value = project(".value");
  Tensor scores = causal_mask(einsum("bthd,bshd->bhts", query, key) * (1 / std::sqrt(double(head))));
  Tensor weights = dropout(softmax(scores, -1), c.dropout);
  Tensor mixed = einsum("bhts,bshd->bthd", weights, value);
  Tensor out = parameter(name + ".out", {c.heads, head, c.width}, normal(0.02 / std::sqrt(2.0 * c.layers)));
  return einsum("bthd,hdc->btc", mixed, out);
}

Tensor mlp(const std::string& name, Tensor x, const Config& c) {
  Tensor hidden = gelu(linear(name + ".up", x, 4 * c.width));
  return linear(name + ".down", hidden, c.width, 0.02 / std::sqrt(2.0 * c.layers));
}

void model() {
  const std::string precision = option("precision", "f32", "bf16 or fp16: products with weights in that type");
  mixed_precision(precision, precision == "fp16" ? 1024 : 1);  // small gradients vanish in fp16
  Config c;
  c.layers = option("layers", 4, "transformer blocks");
  c.heads = option("heads", 4, "attention heads per block");
  c.width = option("width", 128, "features per token");
  c.dropout = option("dropout", 0.0, "share of features dropped");
  c.checkpoint = option("checkpoint", 0, "1: keep only what goes into a block, compute the rest again") != 0;
  int64_t batch = option("batch", 12, "windows of text per step");
  int64_t seq = option("seq", 64, "bytes per window");
  double lr = option("lr", 1e-3, "learning rate after warm-up");  // nanoGPT's for this size; at 2e-3 the loss jumps

  auto [tokens, targets] = text_batch(batch, seq);
  Tensor wte = parameter("wte", {256, c.width}, normal(0.02));
  Tensor wpe = parameter("wpe", {seq, c.width}, normal(0.02));
  Tensor x = dropout(embedding(wte, tokens) + wpe, c.dropout);
  for (int64_t i = 0; i < c.layers; ++i) {
    std::string name = "h" + std::to_string(i);
    auto block = [&] {
      Tensor h = x + dropout(attention(name + ".attn", norm(name + ".norm1", x), c), c.dropout);
      return h + dropout(mlp(name + ".mlp", norm(name + ".norm2", h), c), c.dropout);
    };
    x = c.checkpoint ? checkpoint(block) : block();
  }
  Tensor logits = einsum("btc,vc->btv", norm("norm", x), wte);
  output("logits", logits);
  minimize(cross_entropy(logits, targets),
           AdamW{.learning_rate = lr, .beta2 = 0.99, .weight_decay = 0.1, .warmup_steps = 20, .clip_norm = 1});
}
