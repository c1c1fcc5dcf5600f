// DeepSeekMoE (Dai et al. 2024): many small experts, six of which answer for a token, beside two that answer for all.
// The chosen experts count by their probabilities as they are, which do not add up to 1.
//   hetsynth run deepseek_moe.cpp --set size=tiny
// Model: DeepSeekMoE 16B | 16375728128 parameters
#include <cmath>

#include "hetsynth/hetsynth.h"
using namespace hetsynth;

struct Size {
  int64_t layers, heads, width, dense, hidden, experts, shared, chosen, vocabulary, length, batch;
};

Tensor weight(const std::string& name, const Dims& shape) { return parameter(name, shape, normal(0.006)); }

Tensor norm(const std::string& name, Tensor x) { return rms_norm(x, parameter(name, {x.size(-1)}, ones()), 1e-6); }

Tensor attend(const std::string& name, Tensor x, const Size& s) {
  int64_t head = s.width / s.heads;
  auto project = [&](const char* part) {
    return einsum("btc,chd->bthd", x, weight(name + part, {s.width, s.heads, head}));
  };
  Tensor query = rotary(project(".query"), 1), key = rotary(project(".key"), 1);
  Tensor mixed = attention(query, key, project(".value"), {.causal = true});
  return einsum("bthd,hdc->btc", mixed, weight(name + ".out", {s.heads, head, s.width}));
}

Tensor feed_forward(const std::string& name, Tensor x, int64_t hidden) {
  Tensor gate = silu(matmul(x, weight(name + ".gate", {x.size(-1), hidden})));
  Tensor up = matmul(x, weight(name + ".up", {x.size(-1), hidden}));
  return matmul(gate * up, weight(name + ".down", {hidden, x.size(-1)}));
}

/// b sequences, t tokens, e experts, p places in an expert's queue, c features, f hidden features.
Tensor mixture(const std::string& name, Tensor x, const Size& s, double capacity, Tensor* balance) {
  Tensor logits = matmul(x, weight(name + ".router", {s.width, s.experts}));
  Routing routing = top_k_gating(logits, s.chosen, capacity);
  *balance = balance->defined() ? *balance + routing.balance_loss : routing.balance_loss;
  Tensor queues = expert_dispatch(x, routing);
  Tensor gate = silu(einsum("bepc,ecf->bepf", queues, weight(name + ".gates", {s.experts, s.width, s.hidden})));
  Tensor up = einsum("bepc,ecf->bepf", queues, weight(name + ".ups", {s.experts, s.width, s.hidden}));
  Tensor answers = einsum("bepf,efc->bepc", gate * up, weight(name + ".downs", {s.experts, s.hidden, s.width}));
  // The gate makes the chosen probabilities add up to 1; their sum takes that back.
  auto [probabilities, at] = top_k(softmax(logits, -1), s.chosen, -1);
  Tensor routed = expert_combine(answers, routing) * sum(probabilities, -1, true);
  return routed + feed_forward(name + ".shared", x, s.shared * s.hidden);
}

void model() {
  Size s = choice<Size>("size", "16B",
                        {{"16B", {28, 16, 2048, 10944, 1408, 64, 2, 6, 102400, 4096, 8}},
                         {"tiny", {3, 2, 32, 48, 16, 8, 1, 3, 256, 16, 6}}},
                        "published size, or tiny");
  int64_t batch = option("batch", s.batch, "sequences per step");
  double capacity = option("capacity_factor", 1.25, "places in the experts' queues for each token's choice");
  double balance_weight = option("balance", 0.001, "weight of the load-balancing loss");
  double lr = option("lr", 4.2e-4, "learning rate after warm-up");

  auto [tokens, targets] = token_batch(batch, s.length, s.vocabulary);
  Tensor x = embedding(weight("tokens", {s.vocabulary, s.width}), tokens);
  Tensor balance;
  for (int64_t i = 0; i < s.layers; ++i) {
    std::string layer = "layer" + std::to_string(i);
    x = checkpoint([&] {
      Tensor mixed = x + attend(layer + ".attention", norm(layer + ".norm1", x), s);
      Tensor in = norm(layer + ".norm2", mixed);
      return mixed + (i == 0 ? feed_forward(layer + ".mlp", in, s.dense)
                             : mixture(layer + ".moe", in, s, capacity, &balance));
    });
  }
  Tensor logits = matmul(norm("norm", x), weight("head", {s.width, s.vocabulary}));
  output("logits", logits);
  minimize(cross_entropy(logits, targets) + balance * balance_weight,
           AdamW{.learning_rate = lr, .beta2 = 0.95, .weight_decay = 0.1, .warmup_steps = 10, .clip_norm = 1});
}
