// A Mixtral-style mixture (Jiang et al. 2024): the LLaMA decoder with eight experts in place of each feed-forward part,
// two of them for every token. Queues hold capacity_factor times an even load; the model itself drops nothing.
//   hetsynth run mixtral.cpp --set size=tiny
// Model: Mixtral 8x7B | 46702792704 parameters
#include <cmath>

#include "hetsynth/hetsynth.h"
using namespace hetsynth;

struct Size {
  int64_t layers, heads, key_heads, width, hidden, experts, vocabulary, length, batch;
};

Tensor weight(const std::string& name, const Dims& shape) { return parameter(name, shape, normal(0.02)); }

Tensor norm(const std::string& name, Tensor x) { return rms_norm(x, parameter(name, {x.size(-1)}, ones()), 1e-5); }

/// Queries in groups: every group of heads shares the key and value of one head.
Tensor attention(const std::string& name, Tensor x, const Size& s) {
  int64_t head = s.width / s.heads, group = s.heads / s.key_heads;
  Tensor query = einsum("btc,chd->bthd", x, weight(name + ".query", {s.width, s.heads, head}));
  Tensor key = einsum("btc,ckd->btkd", x, weight(name + ".key", {s.width, s.key_heads, head}));
  Tensor value = einsum("btc,ckd->btkd", x, weight(name + ".value", {s.width, s.key_heads, head}));
  query = reshape(rotary(query, 1, 1e6), {x.size(0), x.size(1), s.key_heads, group, head});
  key = rotary(key, 1, 1e6);
  Tensor scores = causal_mask(einsum("btkgd,bskd->bkgts", query, key) * (1 / std::sqrt(double(head))));
  Tensor mixed = einsum("bkgts,bskd->btkgd", softmax(scores, -1), value);
  mixed = reshape(mixed, {x.size(0), x.size(1), s.heads, head});
  return einsum("bthd,hdc->btc", mixed, weight(name + ".out", {s.heads, head, s.width}));
}

/// b sequences, t tokens, e experts, p places in an expert's queue, c features, f hidden features.
Tensor mixture(const std::string& name, Tensor x, const Size& s, double capacity, Tensor* balance) {
  Tensor logits = matmul(x, weight(name + ".gate", {s.width, s.experts}));
  Routing routing = top2_gating(logits, capacity);
  *balance = balance->defined() ? *balance + routing.balance_loss : routing.balance_loss;
  Tensor queues = expert_dispatch(x, routing);
  Tensor gate = silu(einsum("bepc,ecf->bepf", queues, weight(name + ".w1", {s.experts, s.width, s.hidden})));
  Tensor up = einsum("bepc,ecf->bepf", queues, weight(name + ".w3", {s.experts, s.width, s.hidden}));
  Tensor answers = einsum("bepf,efc->bepc", gate * up, weight(name + ".w2", {s.experts, s.hidden, s.width}));
  return expert_combine(answers, routing);
}

void model() {
  Size s =
      choice<Size>("size", "8x7B",
                   {{"8x7B", {32, 32, 8, 4096, 14336, 8, 32000, 2048, 8}}, {"tiny", {2, 4, 2, 32, 48, 4, 256, 16, 6}}},
                   "published sizes, or tiny");
  int64_t batch = option("batch", s.batch, "sequences per step");
  double capacity = option("capacity_factor", 1.25, "places in the experts' queues for each token's choice");
  double balance_weight = option("balance", 0.02, "weight of the load-balancing loss");
  double lr = option("lr", 4e-4, "learning rate after warm-up");

  auto [tokens, targets] = token_batch(batch, s.length, s.vocabulary);
  Tensor x = embedding(weight("tokens", {s.vocabulary, s.width}), tokens);
  Tensor balance;
  for (int64_t i = 0; i < s.layers; ++i) {
    std::string layer = "layer" + std::to_string(i);
    x = checkpoint([&] {  // at these lengths activations take more memory than parameters
      Tensor mixed = x + attention(layer + ".attention", norm(layer + ".norm1", x), s);
      return mixed + mixture(layer + ".moe", norm(layer + ".norm2", mixed), s, capacity, &balance);
    });
  }
  Tensor logits = matmul(norm("norm", x), weight("head", {s.width, s.vocabulary}));
  output("logits", logits);
  minimize(cross_entropy(logits, targets) + balance * (balance_weight / double(s.layers)),
           AdamW{.learning_rate = lr, .beta2 = 0.95, .weight_decay = 0.1, .warmup_steps = 10, .clip_norm = 1});
}
