// CLIP (Radford et al. 2021) with a ViT-B/32: images and captions become vectors, and each of a batch is to find its
// partner among all of the batch. The loss joins all samples of a step, on whatever devices they are.
//   hetsynth run clip.cpp --set size=tiny
// Model: CLIP ViT-B/32 | 151277313 parameters
#include <cmath>

#include "hetsynth/hetsynth.h"
using namespace hetsynth;

struct Tower {
  int64_t layers, heads, width;
};
struct Size {
  Tower vision, text;
  int64_t image, patch, vocabulary, length, shared, batch;
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

Tensor block(const std::string& name, Tensor x, const Tower& t, bool causal) {
  int64_t head = t.width / t.heads;
  Tensor in = norm(name + ".norm1", x);
  auto project = [&](const std::string& part) {
    Tensor weight = parameter(name + part + ".weight", {t.width, t.heads, head}, normal(0.02));
    return einsum("btc,chd->bthd", in, weight) + parameter(name + part + ".bias", {t.heads, head}, zeros());
  };
  Tensor mixed = attention(project(".query"), project(".key"), project(".value"), {.causal = causal});
  Tensor weight = parameter(name + ".out.weight", {t.heads, head, t.width}, normal(0.02));
  x = x + einsum("bthd,hdc->btc", mixed, weight) + parameter(name + ".out.bias", {t.width}, zeros());
  Tensor up = linear(name + ".up", norm(name + ".norm2", x), 4 * t.width);
  return x + linear(name + ".down", up * sigmoid(1.702 * up), t.width);
}

Tensor tower(const std::string& name, Tensor x, const Tower& t, bool causal) {
  for (int64_t i = 0; i < t.layers; ++i) x = block(name + ".block" + std::to_string(i), x, t, causal);
  return x;
}

/// [batch, 3, height, width] to the class token's features.
Tensor see(Tensor images, const Size& s) {
  int64_t batch = images.size(0), side = s.image / s.patch, width = s.vision.width;
  Tensor tiles = reshape(images, {batch, 3, side, s.patch, side, s.patch});
  Tensor rows = reshape(transpose(tiles, {0, 2, 4, 1, 3, 5}), {batch, side * side, 3 * s.patch * s.patch});
  Tensor patches = matmul(rows, parameter("vision.patch", {rows.size(-1), width}, normal(0.02)));
  Tensor token = broadcast(parameter("vision.class", {1, 1, width}, normal(0.02)), {batch, 1, width});
  Tensor x = concat({token, patches}, 1) + parameter("vision.position", {side * side + 1, width}, normal(0.01));
  x = tower("vision", norm("vision.norm_in", x), s.vision, false);
  return norm("vision.norm_out", reshape(slice(x, 1, 0, 1), {batch, width}));
}

/// The features of the end of the text, which is its largest token.
Tensor read(Tensor tokens, const Size& s) {
  Tensor table = parameter("text.tokens", {s.vocabulary, s.text.width}, normal(0.02));
  Tensor x = embedding(table, tokens) + parameter("text.position", {s.length, s.text.width}, normal(0.01));
  x = norm("text.norm", tower("text", x, s.text, true));
  return einsum("btc,bt->bc", x, one_hot(argmax(to_float(tokens), 1), s.length));
}

Tensor unit(Tensor x) { return x * rsqrt(sum(square(x), -1, true) + 1e-12); }

void model() {
  Size s = choice<Size>("size", "ViT-B/32",
                        {{"ViT-B/32", {{12, 12, 768}, {12, 8, 512}, 224, 32, 49408, 77, 512, 256}},
                         {"tiny", {{2, 2, 32}, {2, 2, 16}, 8, 4, 64, 10, 16, 7}}},
                        "published size, or tiny");
  int64_t batch = option("batch", s.batch, "pairs per step");
  double lr = option("lr", 5e-4, "learning rate after warm-up");

  Tensor images = input("images", {batch, 3, s.image, s.image}, f32);
  Tensor captions = input("captions", {batch, s.length}, i32, {.classes = s.vocabulary});
  Tensor seen = matmul(see(images, s), parameter("vision.out", {s.vision.width, s.shared}, normal(0.02)));
  Tensor meant = matmul(read(captions, s), parameter("text.out", {s.text.width, s.shared}, normal(0.02)));
  Tensor scale = exp(parameter("scale", {}, constant_init(std::log(1 / 0.07))));
  Tensor alike = scale * einsum("ic,jc->ij", unit(seen), unit(meant));
  Tensor own = positions({batch}, 0);
  Tensor loss = 0.5 * (cross_entropy(alike, own) + cross_entropy(transpose(alike, {1, 0}), own));
  metric("found", mean(to_float(argmax(alike, 1) == own)));
  minimize(loss, AdamW{.learning_rate = lr, .beta2 = 0.98, .epsilon = 1e-6, .weight_decay = 0.2, .warmup_steps = 10});
}
