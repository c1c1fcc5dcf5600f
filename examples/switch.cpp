// Switch Transformer (Fedus et al. 2022): T5 with GEGLU, and experts in place of every second feed-forward part, one of
// them for each token.
//   hetsynth run switch.cpp --set size=tiny
// Model: Switch-Base | 7.4B parameters
#include <cmath>

#include "hetsynth/hetsynth.h"
using namespace hetsynth;

struct Size {
  int64_t layers, heads, width, hidden, experts, vocabulary, source_length, target_length,
      batch;  // layers of each stack
};

/// Weights that so many numbers are multiplied with and added up. A tenth of the usual variance: larger mixtures are
/// unstable in training otherwise (section 2.4).
Init weights(int64_t inputs) { return normal(std::sqrt(0.1 / double(inputs))); }

Tensor norm(const std::string& name, Tensor x) { return rms_norm(x, parameter(name, {x.size(-1)}, ones()), 1e-6); }

/// Which of 32 buckets the distance from query to key falls into: small distances have one each, larger ones share by
/// their logarithm up to 128. With `both` directions half of the buckets are for keys after the query.
Tensor bucket(int64_t queries, int64_t keys, bool both) {
  Tensor ahead = to_float(positions({queries, keys}, 1)) - to_float(positions({queries, keys}, 0));
  Tensor distance = both ? abs(ahead) : maximum(-ahead, 0);
  double buckets = both ? 16 : 32, exact = buckets / 2;
  // 1e-4 keeps powers of two on their side of the boundary whatever the rounding of the logarithm.
  Tensor shared = exact + log(maximum(distance, 1) / exact) * ((buckets - exact) / std::log(128 / exact)) + 1e-4;
  Tensor number = where(less(distance, exact), distance, minimum(shared, buckets - 1));
  return to_int(both ? number + 16 * less(0, ahead) : number);
}

/// [heads, queries, keys], added to the scores of every layer of a stack.
Tensor position_bias(const std::string& name, int64_t queries, int64_t keys, bool both, const Size& s) {
  Tensor table = parameter(name, {32, s.heads}, weights(s.width));
  return transpose(embedding(table, bucket(queries, keys, both)), {2, 0, 1});
}

/// Scores are not divided by sqrt(head): the initialisation of the queries is smaller instead.
Tensor attention(const std::string& name, Tensor x, Tensor memory, Tensor bias, bool causal, const Size& s) {
  int64_t head = 64 < s.width ? 64 : s.width / s.heads;
  auto project = [&](const std::string& part, Tensor from, int64_t inputs) {
    return einsum("btc,chd->bthd", from, parameter(name + part, {s.width, s.heads, head}, weights(inputs)));
  };
  Tensor query = project(".query", x, s.width * head);
  Tensor key = project(".key", memory, s.width);
  Tensor value = project(".value", memory, s.width);
  Tensor scores = einsum("bthd,bshd->bhts", query, key);
  if (bias.defined()) scores = scores + bias;
  if (causal) scores = causal_mask(scores);
  Tensor mixed = einsum("bhts,bshd->bthd", softmax(scores, -1), value);
  Tensor out = parameter(name + ".out", {s.heads, head, s.width}, weights(s.heads * head));
  return einsum("bthd,hdc->btc", mixed, out);
}

Tensor feed_forward(const std::string& name, Tensor x, const Size& s) {
  auto weight = [&](const std::string& part, int64_t rows, int64_t columns) {
    return parameter(name + part, {rows, columns}, weights(rows));
  };
  Tensor gate = gelu(matmul(x, weight(".gate", s.width, s.hidden)));
  Tensor up = matmul(x, weight(".up", s.width, s.hidden));
  return matmul(gate * up, weight(".down", s.hidden, s.width));
}

/// b sequences, t tokens, e experts, p places in an expert's queue, c features, f hidden features.
Tensor switched(const std::string& name, Tensor x, const Size& s, double capacity, Tensor* balance) {
  auto weight = [&](const std::string& part, int64_t rows, int64_t columns) {
    return parameter(name + part, {s.experts, rows, columns}, weights(rows));
  };
  Tensor router = parameter(name + ".router", {s.width, s.experts}, weights(s.width));
  Routing routing = top1_gating(matmul(x, router), capacity);
  *balance = balance->defined() ? *balance + routing.balance_loss : routing.balance_loss;
  Tensor queues = expert_dispatch(x, routing);
  Tensor gate = gelu(einsum("bepc,ecf->bepf", queues, weight(".gate", s.width, s.hidden)));
  Tensor up = einsum("bepc,ecf->bepf", queues, weight(".up", s.width, s.hidden));
  return expert_combine(einsum("bepf,efc->bepc", gate * up, weight(".down", s.hidden, s.width)), routing);
}

void model() {
  Size s = choice<Size>(
      "size", "base",
      {{"base", {12, 12, 768, 2048, 128, 32128, 512, 128, 64}}, {"tiny", {2, 2, 32, 48, 4, 64, 20, 12, 6}}},
      "published sizes, or tiny");
  int64_t batch = option("batch", s.batch, "pairs of sequences per step");
  double capacity = option("capacity_factor", 1.25, "places in the experts' queues for each token");
  double balance_weight = option("balance", 0.01, "weight of the load-balancing loss");
  double p = option("dropout", 0.1, "share of features dropped");
  double lr = option("lr", 1e-3, "learning rate after warm-up");

  auto [source, input, targets] =
      translation_batch(batch, s.source_length, s.target_length, s.vocabulary, s.vocabulary);
  Tensor table = parameter("tokens", {s.vocabulary, s.width}, weights(1));

  Tensor balance;
  auto answer = [&](int64_t i, const std::string& name, Tensor x) {
    return i % 2 == 1 ? switched(name, x, s, capacity, &balance) : feed_forward(name, x, s);
  };

  Tensor x = dropout(embedding(table, source), p);
  Tensor bias = position_bias("encoder.bias", s.source_length, s.source_length, true, s);
  for (int64_t i = 0; i < s.layers; ++i) {
    std::string layer = "encoder" + std::to_string(i);
    Tensor in = norm(layer + ".norm1", x);
    x = x + dropout(attention(layer + ".attention", in, in, bias, false, s), p);
    x = x + dropout(answer(i, layer + ".mlp", norm(layer + ".norm2", x)), p);
  }
  Tensor memory = dropout(norm("encoder.norm", x), p);

  Tensor y = dropout(embedding(table, input), p);
  bias = position_bias("decoder.bias", s.target_length, s.target_length, false, s);
  for (int64_t i = 0; i < s.layers; ++i) {
    std::string layer = "decoder" + std::to_string(i);
    Tensor in = norm(layer + ".norm1", y);
    y = y + dropout(attention(layer + ".attention", in, in, bias, true, s), p);
    y = y + dropout(attention(layer + ".memory", norm(layer + ".norm2", y), memory, {}, false, s), p);
    y = y + dropout(answer(i, layer + ".mlp", norm(layer + ".norm3", y)), p);
  }
  Tensor out = dropout(norm("decoder.norm", y), p) * (1 / std::sqrt(double(s.width)));
  Tensor logits = einsum("btc,vc->btv", out, table);
  minimize(cross_entropy(logits, targets) + balance_weight * balance,
           AdamW{.learning_rate = lr, .warmup_steps = 10, .clip_norm = 1});
}
