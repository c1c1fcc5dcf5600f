// GPT-2 (Radford et al. 2019) with low-rank adapters (LoRA, Hu et al. 2021): the weights of gpt2.cpp stay as they are,
// and beside the projections to queries, keys and values a product of two small matrices is trained, alpha / rank A B.
//   hetsynth run lora.cpp --init-from gpt2/ --map weights/gpt2.toml --data tokens.npy --checkpoint tuned.safetensors
//   hetsynth export tuned.safetensors --map weights/gpt2-lora.toml -o adapter_model.safetensors
//   hetsynth export tuned.safetensors --map weights/gpt2.toml --merge weights/gpt2-lora.toml -o model.safetensors
// Model: GPT-2 124M LoRA | 124734720 parameters
#include <cmath>

#include "hetsynth/hetsynth.h"
using namespace hetsynth;

struct Size {
  int64_t layers, heads, width, vocabulary, length, batch;
};

struct Adapters {
  int64_t rank;
  double dropout;
  Tensor scale;  ///< alpha / rank: a state, so that checkpoints have what is needed to merge
};

/// What the base model has, and nothing trains.
Tensor frozen(const std::string& name, const Dims& shape, Init init) {
  return parameter(name, shape, init, {.trainable = false});
}

Tensor norm(const std::string& name, Tensor x) {
  Tensor gain = frozen(name + ".gain", {x.size(-1)}, ones());
  Tensor bias = frozen(name + ".bias", {x.size(-1)}, zeros());
  return layernorm(x, gain, bias);
}

Tensor linear(const std::string& name, Tensor x, int64_t outputs, double deviation) {
  Tensor weight = frozen(name + ".weight", {x.size(-1), outputs}, normal(deviation));
  Tensor bias = frozen(name + ".bias", {outputs}, zeros());
  return matmul(x, weight) + bias;
}

/// The three projections share A, as they are one matrix in the published weights. B is zero at the start, so that the
/// first step begins with the base model.
Tensor attention(const std::string& name, Tensor x, const Size& s, const Adapters& adapters) {
  int64_t head = s.width / s.heads;
  Tensor a = parameter(name + ".lora_a", {s.width, adapters.rank}, normal(1.0 / adapters.rank));
  Tensor low = einsum("btc,cr->btr", dropout(x, adapters.dropout), a) * adapters.scale;
  auto project = [&](const std::string& part) {
    Tensor weight = frozen(name + part + ".weight", {s.width, s.heads, head}, normal(0.02));
    Tensor bias = frozen(name + part + ".bias", {s.heads, head}, zeros());
    Tensor b = parameter(name + part + ".lora_b", {adapters.rank, s.heads, head}, zeros());
    return einsum("btc,chd->bthd", x, weight) + bias + einsum("btr,rhd->bthd", low, b);
  };
  Tensor query = project(".query");
  Tensor key = project(".key");
  Tensor value = project(".value");
  Tensor scores = causal_mask(einsum("bthd,bshd->bhts", query, key) * (1 / std::sqrt(double(head))));
  Tensor mixed = einsum("bhts,bshd->bthd", softmax(scores, -1), value);
  Tensor weight = frozen(name + ".out.weight", {s.heads, head, s.width}, normal(0.02 / std::sqrt(2.0 * s.layers)));
  Tensor bias = frozen(name + ".out.bias", {s.width}, zeros());
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
  int64_t batch = option("batch", s.batch, "sequences per step");
  int64_t rank = option("rank", 8, "columns of A and rows of B");
  double alpha = option("alpha", 16.0, "A B counts alpha / rank times");
  double lr = option("lr", 2e-4, "learning rate after warm-up");
  Adapters adapters{rank, option("lora_dropout", 0.0, "share of features that adapters do not see"),
                    state("lora.scale", {}, constant_init(alpha / double(rank)))};

  auto [tokens, targets] = token_batch(batch, s.length, s.vocabulary);
  Tensor wte = frozen("wte", {s.vocabulary, s.width}, normal(0.02));
  Tensor wpe = frozen("wpe", {s.length, s.width}, normal(0.01));
  Tensor x = embedding(wte, tokens) + wpe;
  for (int64_t i = 0; i < s.layers; ++i) {
    std::string block = "h" + std::to_string(i);
    const auto layer = [&] {
      Tensor mixed = x + attention(block + ".attention", norm(block + ".norm1", x), s, adapters);
      return mixed + mlp(block + ".mlp", norm(block + ".norm2", mixed), s);
    };
    x = s.layers > 12 ? checkpoint(layer) : layer();  // activations of the large size take more memory than parameters
  }
  Tensor logits = einsum("btc,vc->btv", norm("norm", x), wte);
  output("logits", logits);
  minimize(cross_entropy(logits, targets),
           AdamW{.learning_rate = lr, .weight_decay = 0.01, .warmup_steps = 10, .clip_norm = 1});
}
