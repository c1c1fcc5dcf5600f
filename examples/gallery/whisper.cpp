// Whisper (Radford et al. 2023): speech to text. Two convolutions and a transformer hear a spectrogram of half a
// minute, a second transformer writes.
//   hetsynth run whisper.cpp --set size=least
// Model: Whisper tiny | 37184640 parameters
// Tiny: size=least
#include <cmath>
#include <vector>

#include "hetsynth/hetsynth.h"
using namespace hetsynth;

struct Size {
  int64_t layers, heads, width, bands, frames, vocabulary, length, batch;
};

Tensor norm(const std::string& name, Tensor x) {
  Tensor gain = parameter(name + ".gain", {x.size(-1)}, ones());
  Tensor bias = parameter(name + ".bias", {x.size(-1)}, zeros());
  return layernorm(x, gain, bias);
}

Tensor linear(const std::string& name, Tensor x, int64_t outputs) {
  Tensor weight = parameter(name + ".weight", {x.size(-1), outputs}, normal(0.02));
  return matmul(x, weight) + parameter(name + ".bias", {outputs}, zeros());
}

/// Queries of x, keys (which have no bias) and values of `from`.
Tensor attend(const std::string& name, Tensor x, Tensor from, const Size& s, bool causal) {
  int64_t head = s.width / s.heads;
  auto project = [&](const std::string& part, Tensor source, bool bias) {
    Tensor weight = parameter(name + part + ".weight", {s.width, s.heads, head}, normal(0.02));
    Tensor out = einsum("btc,chd->bthd", source, weight);
    return bias ? out + parameter(name + part + ".bias", {s.heads, head}, zeros()) : out;
  };
  Tensor query = project(".query", x, true), key = project(".key", from, false), value = project(".value", from, true);
  Tensor mixed = attention(query, key, value, {.causal = causal});
  Tensor weight = parameter(name + ".out.weight", {s.heads, head, s.width}, normal(0.02));
  return einsum("bthd,hdc->btc", mixed, weight) + parameter(name + ".out.bias", {s.width}, zeros());
}

Tensor feed_forward(const std::string& name, Tensor x, const Size& s) {
  return linear(name + ".down", gelu_erf(linear(name + ".up", x, 4 * s.width)), s.width);
}

Tensor window(const std::string& name, Tensor x, int64_t outputs, int64_t stride) {
  Tensor weight = parameter(name + ".weight", {outputs, x.size(1), 3}, normal(std::sqrt(1.0 / double(3 * x.size(1)))));
  Tensor bias = parameter(name + ".bias", {outputs, 1}, zeros());
  return gelu_erf(conv1d(x, weight, {.stride = stride, .padding = 1}) + bias);
}

/// Sines and cosines of a position; the encoder's positions are not learnt.
Tensor sinusoids(int64_t length, int64_t width) {
  std::vector<double> table;
  for (int64_t t = 0; t < length; ++t)
    for (int64_t i = 0; i < width; ++i) {
      double angle = double(t) * std::exp(-std::log(1e4) * double(i % (width / 2)) / double(width / 2 - 1));
      table.push_back(i < width / 2 ? std::sin(angle) : std::cos(angle));
    }
  return constant(table, {length, width});
}

void model() {
  Size s = choice<Size>("size", "tiny",
                        {{"tiny", {4, 6, 384, 80, 3000, 51865, 448, 16}},
                         {"base", {6, 8, 512, 80, 3000, 51865, 448, 16}},
                         {"least", {1, 2, 16, 8, 20, 64, 10, 6}}},
                        "published sizes (tiny is one of them), or least");
  int64_t batch = option("batch", s.batch, "half minutes per step");
  double lr = option("lr", 1.5e-3, "learning rate after warm-up");

  Tensor sound = input("sound", {batch, s.bands, s.frames}, f32);
  Tensor text = input("text", {batch, s.length}, i32, {.classes = s.vocabulary});
  Tensor targets = input("targets", {batch, s.length}, i32, {.classes = s.vocabulary, .ignored = -100});

  Tensor x = window("encoder.conv2", window("encoder.conv1", sound, s.width, 1), s.width, 2);
  x = transpose(x, {0, 2, 1}) + sinusoids(s.frames / 2, s.width);
  for (int64_t i = 0; i < s.layers; ++i) {
    std::string layer = "encoder" + std::to_string(i);
    Tensor in = norm(layer + ".norm1", x);
    x = x + attend(layer + ".attention", in, in, s, false);
    x = x + feed_forward(layer + ".mlp", norm(layer + ".norm2", x), s);
  }
  Tensor heard = norm("encoder.norm", x);

  Tensor table = parameter("tokens", {s.vocabulary, s.width}, normal(0.02));
  Tensor y = embedding(table, text) + parameter("positions", {s.length, s.width}, normal(0.01));
  for (int64_t i = 0; i < s.layers; ++i) {
    std::string layer = "decoder" + std::to_string(i);
    Tensor in = norm(layer + ".norm1", y);
    y = y + attend(layer + ".attention", in, in, s, true);
    y = y + attend(layer + ".heard", norm(layer + ".norm2", y), heard, s, false);
    y = y + feed_forward(layer + ".mlp", norm(layer + ".norm3", y), s);
  }
  Tensor logits = einsum("btc,vc->btv", norm("decoder.norm", y), table);
  output("logits", logits);
  minimize(cross_entropy(logits, targets, {.ignored_label = -100}),
           AdamW{.learning_rate = lr, .beta2 = 0.98, .epsilon = 1e-6, .weight_decay = 0.1, .warmup_steps = 10,
                 .clip_norm = 1});
}
