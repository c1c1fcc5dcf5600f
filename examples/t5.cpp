// T5 (Raffel et al. 2020): encoder and decoder with relative position bias, RMSNorm without bias, one table for both
// vocabularies and the output layer. large-32 is Galvatron's (Miao et al. 2022).
//   hetsynth run t5.cpp --set size=tiny
// Model: T5-Large | 737668096 parameters
// Model: T5-Large-32 | 502M parameters | size=large-32
#include <cmath>

#include "hetsynth/hetsynth.h"
using namespace hetsynth;

struct Size {
  int64_t layers, heads, width, hidden, vocabulary, source_length, target_length, batch;  // layers of each stack
};

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
  Tensor table = parameter(name, {32, s.heads}, normal(1 / std::sqrt(double(s.width))));
  return transpose(embedding(table, bucket(queries, keys, both)), {2, 0, 1});
}

/// Scores are not divided by sqrt(head): the initialisation of the queries is smaller instead.
Tensor attention(const std::string& name, Tensor x, Tensor memory, Tensor bias, bool causal, const Size& s) {
  int64_t head = 64 < s.width ? 64 : s.width / s.heads;
  double deviation = 1 / std::sqrt(double(s.width));
  auto project = [&](const std::string& part, Tensor from, double scale) {
    return einsum("btc,chd->bthd", from, parameter(name + part, {s.width, s.heads, head}, normal(deviation * scale)));
  };
  Tensor query = project(".query", x, 1 / std::sqrt(double(head)));
  Tensor key = project(".key", memory, 1);
  Tensor value = project(".value", memory, 1);
  Tensor scores = einsum("bthd,bshd->bhts", query, key);
  if (bias.defined()) scores = scores + bias;
  if (causal) scores = causal_mask(scores);
  Tensor mixed = einsum("bhts,bshd->bthd", softmax(scores, -1), value);
  Tensor out = parameter(name + ".out", {s.heads, head, s.width}, normal(1 / std::sqrt(double(s.heads * head))));
  return einsum("bthd,hdc->btc", mixed, out);
}

Tensor feed_forward(const std::string& name, Tensor x, const Size& s) {
  Tensor up = parameter(name + ".up", {s.width, s.hidden}, normal(1 / std::sqrt(double(s.width))));
  Tensor down = parameter(name + ".down", {s.hidden, s.width}, normal(1 / std::sqrt(double(s.hidden))));
  return matmul(relu(matmul(x, up)), down);
}

void model() {
  Size s = choice<Size>("size", "large",
                        {{"large", {24, 16, 1024, 4096, 32128, 512, 128, 64}},
                         {"large-32", {16, 16, 1024, 4096, 32128, 512, 128, 64}},
                         {"tiny", {1, 2, 32, 64, 64, 20, 12, 6}}},
                        "published sizes, or tiny");
  int64_t batch = option("batch", s.batch, "pairs of sequences per step");
  double p = option("dropout", 0.1, "share of features dropped");
  double lr = option("lr", 1e-3, "learning rate after warm-up");

  auto [source, input, targets] =
      translation_batch(batch, s.source_length, s.target_length, s.vocabulary, s.vocabulary);
  Tensor table = parameter("tokens", {s.vocabulary, s.width}, normal(1));

  Tensor x = dropout(embedding(table, source), p);
  Tensor bias = position_bias("encoder.bias", s.source_length, s.source_length, true, s);
  for (int64_t i = 0; i < s.layers; ++i) {
    std::string layer = "encoder" + std::to_string(i);
    Tensor in = norm(layer + ".norm1", x);
    x = x + dropout(attention(layer + ".attention", in, in, bias, false, s), p);
    x = x + dropout(feed_forward(layer + ".mlp", norm(layer + ".norm2", x), s), p);
  }
  Tensor memory = dropout(norm("encoder.norm", x), p);

  Tensor y = dropout(embedding(table, input), p);
  bias = position_bias("decoder.bias", s.target_length, s.target_length, false, s);
  for (int64_t i = 0; i < s.layers; ++i) {
    std::string layer = "decoder" + std::to_string(i);
    Tensor in = norm(layer + ".norm1", y);
    y = y + dropout(attention(layer + ".attention", in, in, bias, true, s), p);
    y = y + dropout(attention(layer + ".memory", norm(layer + ".norm2", y), memory, {}, false, s), p);
    y = y + dropout(feed_forward(layer + ".mlp", norm(layer + ".norm3", y), s), p);
  }
  Tensor out = dropout(norm("decoder.norm", y), p) * (1 / std::sqrt(double(s.width)));
  Tensor logits = einsum("btc,vc->btv", out, table);
  minimize(cross_entropy(logits, targets), AdamW{.learning_rate = lr, .warmup_steps = 10, .clip_norm = 1});
}
