// Vision Transformer (Dosovitskiy et al. 2021): an image is a sequence of patches behind a class token. The huge sizes
// are those of Galvatron (Miao et al. 2022); huge-32 is the paper's ViT-H/14.
//   hetsynth run vit.cpp --set size=tiny
// Model: ViT-B/16 | 86567656 parameters
// Model: ViT-Huge-32 | 632045800 parameters | size=huge-32
// Model: ViT-Huge-48 | 947M parameters | size=huge-48
#include <cmath>

#include "hetsynth/hetsynth.h"
using namespace hetsynth;

struct Size {
  int64_t layers, heads, width, patch, image, classes, batch;
};

Tensor norm(const std::string& name, Tensor x) {
  Tensor gain = parameter(name + ".gain", {x.size(-1)}, ones());
  Tensor bias = parameter(name + ".bias", {x.size(-1)}, zeros());
  return layernorm(x, gain, bias, 1e-6);
}

Tensor linear(const std::string& name, Tensor x, int64_t outputs) {
  Tensor weight = parameter(name + ".weight", {x.size(-1), outputs}, normal(0.02));
  Tensor bias = parameter(name + ".bias", {outputs}, zeros());
  return matmul(x, weight) + bias;
}

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
  Tensor scores = einsum("bthd,bshd->bhts", query, key) * (1 / std::sqrt(double(head)));
  Tensor mixed = einsum("bhts,bshd->bthd", softmax(scores, -1), value);
  Tensor weight = parameter(name + ".out.weight", {s.heads, head, s.width}, normal(0.02));
  Tensor bias = parameter(name + ".out.bias", {s.width}, zeros());
  return einsum("bthd,hdc->btc", mixed, weight) + bias;
}

/// [batch, 3, height, width] to [batch, patches, features]: a convolution whose stride is its kernel is a matrix
/// product.
Tensor patches(Tensor images, const Size& s) {
  int64_t batch = images.size(0), side = s.image / s.patch;
  Tensor tiles = reshape(images, {batch, 3, side, s.patch, side, s.patch});
  Tensor rows = transpose(tiles, {0, 2, 4, 1, 3, 5});
  return linear("patch", reshape(rows, {batch, side * side, 3 * s.patch * s.patch}), s.width);
}

void model() {
  Size s = choice<Size>("size", "base-16",
                        {{"base-16", {12, 12, 768, 16, 224, 1000, 256}},
                         {"large-16", {24, 16, 1024, 16, 224, 1000, 256}},
                         {"huge-32", {32, 16, 1280, 14, 224, 1000, 256}},
                         {"huge-48", {48, 16, 1280, 14, 224, 1000, 256}},
                         {"tiny", {2, 2, 32, 4, 12, 10, 6}}},
                        "published sizes, or tiny");
  int64_t batch = option("batch", s.batch, "images per step");
  double p = option("dropout", 0.1, "share of features dropped");
  double lr = option("lr", 1e-3, "learning rate after warm-up");

  auto [images, labels] = image_batch(batch, 3, s.image, s.image, s.classes);
  Tensor x = patches(images, s);
  Tensor token = broadcast(parameter("class_token", {1, 1, s.width}, zeros()), {batch, 1, s.width});
  Tensor position = parameter("position", {x.size(1) + 1, s.width}, normal(0.02));
  x = dropout(concat({token, x}, 1) + position, p);
  for (int64_t i = 0; i < s.layers; ++i) {
    std::string block = "block" + std::to_string(i);
    x = x + dropout(attention(block + ".attention", norm(block + ".norm1", x), s), p);
    Tensor hidden = dropout(gelu(linear(block + ".up", norm(block + ".norm2", x), 4 * s.width)), p);
    x = x + dropout(linear(block + ".down", hidden, s.width), p);
  }
  Tensor classified = reshape(slice(norm("norm", x), 1, 0, 1), {batch, s.width});
  Tensor logits = linear("head", classified, s.classes);
  output("logits", logits);
  minimize(cross_entropy(logits, labels),
           AdamW{.learning_rate = lr, .weight_decay = 0.1, .warmup_steps = 10, .clip_norm = 1});
}
