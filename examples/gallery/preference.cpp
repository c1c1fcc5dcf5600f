// Direct preference optimization (Rafailov et al. 2023) of a GPT-2: of two answers the preferred one is to become
// likelier, the other less so, both measured against the frozen network that training starts from.
//   hetsynth run preference.cpp --set size=tiny
//   hetsynth run preference.cpp --init-from gpt2/ --map ../weights/gpt2.toml --data pairs/
//     (texts.npy [samples, 2, length + 1], the preferred answer first; counted.npy [samples, 2, length], 1 in answers)
// Model: DPO GPT-2 | 124439808 parameters without reference.
#include <cmath>
#include <string>

#include "hetsynth/hetsynth.h"
using namespace hetsynth;

struct Size {
  int64_t layers, heads, width, vocabulary, length, batch;
};

/// Parameters that are trained, or those of the reference, which are not.
struct Weights {
  std::string prefix;
  bool trainable;
  Tensor operator()(const std::string& name, const Dims& shape, Init init) const {
    return parameter(prefix + name, shape, init, {.trainable = trainable});
  }
};

Tensor norm(const Weights& w, const std::string& name, Tensor x) {
  return layernorm(x, w(name + ".gain", {x.size(-1)}, ones()), w(name + ".bias", {x.size(-1)}, zeros()));
}

Tensor linear(const Weights& w, const std::string& name, Tensor x, int64_t outputs) {
  return matmul(x, w(name + ".weight", {x.size(-1), outputs}, normal(0.02))) + w(name + ".bias", {outputs}, zeros());
}

/// Logits of [texts, length, vocabulary].
Tensor gpt(const Weights& w, Tensor tokens, const Size& s) {
  int64_t head = s.width / s.heads;
  Tensor wte = w("wte", {s.vocabulary, s.width}, normal(0.02));
  Tensor x = embedding(wte, tokens) + w("wpe", {s.length, s.width}, normal(0.01));
  for (int64_t i = 0; i < s.layers; ++i) {
    std::string block = "h" + std::to_string(i);
    Tensor in = norm(w, block + ".norm1", x);
    auto project = [&](const std::string& part) {
      Tensor weight = w(block + ".attention" + part + ".weight", {s.width, s.heads, head}, normal(0.02));
      return einsum("btc,chd->bthd", in, weight) + w(block + ".attention" + part + ".bias", {s.heads, head}, zeros());
    };
    Tensor mixed = attention(project(".query"), project(".key"), project(".value"), {.causal = true});
    Tensor weight = w(block + ".attention.out.weight", {s.heads, head, s.width}, normal(0.02));
    x = x + einsum("bthd,hdc->btc", mixed, weight) + w(block + ".attention.out.bias", {s.width}, zeros());
    x = x + linear(w, block + ".mlp.down", gelu(linear(w, block + ".mlp.up", norm(w, block + ".norm2", x), 4 * s.width)),
                   s.width);
  }
  return einsum("btc,vc->btv", norm(w, "norm", x), wte);
}

/// Log-likelihood of each text's answer: of the tokens that the mask counts, from those before them.
Tensor likelihood(const Weights& w, Tensor tokens, Tensor next, Tensor mask, const Size& s) {
  return sum(pick(log_softmax(gpt(w, tokens, s), -1), next) * mask, 1);
}

void model() {
  Size s = choice<Size>("size", "124M",
                        {{"124M", {12, 12, 768, 50257, 1024, 16}}, {"tiny", {2, 2, 16, 64, 12, 6}}},
                        "published size, or tiny");
  int64_t batch = option("batch", s.batch, "pairs of answers per step");
  double beta = option("beta", 0.1, "how closely the network stays at its reference");
  double lr = option("lr", 1e-6, "learning rate after warm-up");

  // Pairs are read side by side: answer 0 of each is the preferred one.
  Tensor texts = input("texts", {batch, 2, s.length + 1}, i32, {.classes = s.vocabulary});
  Tensor counted = input("counted", {batch, 2, s.length}, f32, {.lowest = 0, .highest = 1});
  Tensor tokens = reshape(slice(texts, 2, 0, s.length), {2 * batch, s.length});
  Tensor next = reshape(slice(texts, 2, 1, s.length + 1), {2 * batch, s.length});
  Tensor mask = reshape(counted, {2 * batch, s.length});
  Tensor gained = likelihood({"", true}, tokens, next, mask, s) -
                  likelihood({"reference.", false}, tokens, next, mask, s);
  Tensor each = reshape(gained, {batch, 2});
  Tensor margin = reshape(slice(each, 1, 0, 1) - slice(each, 1, 1, 2), {batch});
  metric("preferred", mean(margin > 0));
  minimize(mean(softplus(-beta * margin)), AdamW{.learning_rate = lr, .weight_decay = 0, .warmup_steps = 10});
}
