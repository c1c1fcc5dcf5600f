// GPT-2 (Radford et al. 2019): pre-norm blocks, learned positions, the embedding table read again as the output layer.
//   hetsynth run gpt2.cpp --set size=tiny
// Model: GPT-2 124M | 124439808 parameters
// Model: GPT-2 1558M | 1557611200 parameters | size=1558M
#include <cmath>

#include "hetsynth/hetsynth.h"
using namespace hetsynth;

struct Size {
  int64_t layers, heads, width, vocabulary, length, batch;
};

Tensor norm(const std::string& name, Tensor x) {
  Tensor gain = parameter(name + ".gain", {x.size(-1)}, ones());
  Tensor bias = parameter(name + ".bias", {x.size(-1)}, zeros());
  return layernorm(x, gain, bias);
}

Tensor linear(const std::string& name, Tensor x, int64_t outputs, double deviation) {
  Tensor weight = parameter(name + ".weight", {x.size(-1), outputs}, normal(deviation));
  Tensor bias = parameter(name + ".bias", {outputs}, zeros());
  return matmul(x, weight) + bias;
}

/// Heads have a dimension of their own from the start, so nothing is transposed.
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
  Tensor scores = causal_mask(einsum("bthd,bshd->bhts", query, key) * (1 / std::sqrt(double(head))));
  Tensor mixed = einsum("bhts,bshd->bthd", softmax(scores, -1), value);
  Tensor weight = parameter(name + ".out.weight", {s.heads, head, s.width}, normal(0.02 / std::sqrt(2.0 * s.layers)));
  Tensor bias = parameter(name + ".out.bias", {s.width}, zeros());
  return einsum("bthd,hdc->btc", mixed, weight) + bias;
}

Tensor mlp(const std::string& name, Tensor x, const Size& s) {
  Tensor hidden = gelu(linear(name + ".up", x, 4 * s.width, 0.02));
  return linear(name + ".down", hidden, s.width, 0.02 / std::sqrt(2.0 * s.layers));
}

void model() {
  Size s = choice<Size>("size", "124M",
                        {{"124M", {12, 12, 768, 50257, 1024, 64}},
                         {"355M", {24, 16, 1024, 50257, 1024, 64}},
                         {"774M", {36, 20, 1280, 50257, 1024, 64}},
                         {"1558M", {48, 25, 1600, 50257, 1024, 64}},
                         {"tiny", {2, 2, 32, 256, 16, 6}}},
                        "published sizes, or tiny");
  s.vocabulary = option("vocabulary", s.vocabulary, "rows of the table; tensor cores like multiples of 128: 50304");
  int64_t batch = option("batch", s.batch, "sequences per step");
  double p = option("dropout", 0.0, "share of features dropped");
  double lr = option("lr", 6e-4, "learning rate after warm-up");
  const std::string precision = option("precision", "f32", "bf16 or fp16: products with weights in that type");
  mixed_precision(precision, precision == "fp16" ? 1024 : 1);  // small gradients vanish in fp16

  auto [tokens, targets] = token_batch(batch, s.length, s.vocabulary);
  Tensor wte = parameter("wte", {s.vocabulary, s.width}, normal(0.02));
  Tensor wpe = parameter("wpe", {s.length, s.width}, normal(0.01));
  Tensor x = dropout(embedding(wte, tokens) + wpe, p);
  for (int64_t i = 0; i < s.layers; ++i) {
    std::string block = "h" + std::to_string(i);
    const auto layer = [&] {
      Tensor mixed = x + dropout(attention(block + ".attention", norm(block + ".norm1", x), s), p);
      return mixed + dropout(mlp(block + ".mlp", norm(block + ".norm2", mixed), s), p);
    };
    x = s.layers > 12 ? checkpoint(layer) : layer();  // activations of the large size take more memory than parameters
  }
  Tensor logits = einsum("btc,vc->btv", norm("norm", x), wte);
  output("logits", logits);
  minimize(cross_entropy(logits, targets),
           AdamW{.learning_rate = lr, .beta2 = 0.95, .weight_decay = 0.1, .warmup_steps = 10, .clip_norm = 1});
}
