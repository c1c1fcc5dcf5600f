// ConvNeXt-T (Liu et al. 2022): convolutions of 7 x 7 within channels, and layers between channels as a transformer has
// them. A part of the samples skips a block (stochastic depth, Huang et al. 2016).
//   hetsynth run convnext.cpp --set size=tiny
// Model: ConvNeXt-T | 28589128 parameters
#include <cmath>
#include <string>
#include <vector>

#include "hetsynth/hetsynth.h"
using namespace hetsynth;

struct Size {
  int64_t image, classes, batch;
  std::vector<int64_t> blocks, widths;
};

/// Over the last dimension; images are [batch, height, width, channels] but for convolutions.
Tensor norm(const std::string& name, Tensor x) {
  Tensor gain = parameter(name + ".gain", {x.size(-1)}, ones());
  Tensor bias = parameter(name + ".bias", {x.size(-1)}, zeros());
  return layernorm(x, gain, bias, 1e-6);
}

Tensor linear(const std::string& name, Tensor x, int64_t outputs) {
  Tensor weight = parameter(name + ".weight", {x.size(-1), outputs}, normal(0.02));
  return matmul(x, weight) + parameter(name + ".bias", {outputs}, zeros());
}

Tensor channels_last(Tensor x) { return transpose(x, {0, 2, 3, 1}); }
Tensor channels_first(Tensor x) { return transpose(x, {0, 3, 1, 2}); }

/// Windows that do not overlap.
Tensor patches(const std::string& name, Tensor x, int64_t outputs, int64_t side) {
  Tensor weight = parameter(name + ".weight", {outputs, x.size(3), side, side}, normal(0.02));
  Tensor bias = parameter(name + ".bias", {outputs}, zeros());
  return channels_last(conv2d(channels_first(x), weight, {.stride = side})) + bias;
}

Tensor block(const std::string& name, Tensor x, double skipped) {
  int64_t width = x.size(3);
  Tensor window = parameter(name + ".window.weight", {width, 1, 7, 7}, normal(0.02));
  Tensor bias = parameter(name + ".window.bias", {width}, zeros());
  Tensor h = channels_last(conv2d(channels_first(x), window, {.padding = 3, .groups = width})) + bias;
  h = linear(name + ".up", norm(name + ".norm", h), 4 * width);
  h = linear(name + ".down", gelu_erf(h), width) * parameter(name + ".scale", {width}, constant_init(1e-6));
  return x + h * dropout(full({x.size(0), 1, 1, 1}, 1.0), skipped);
}

void model() {
  Size s = choice<Size>("size", "T",
                        {{"T", {224, 1000, 128, {3, 3, 9, 3}, {96, 192, 384, 768}}},
                         {"tiny", {32, 10, 6, {1, 2}, {8, 16}}}},
                        "published size, or tiny");
  int64_t batch = option("batch", s.batch, "images per step");
  double skipped = option("skipped", 0.1, "share of samples that skip the last block; of the first none do");
  double lr = option("lr", 4e-3 * double(batch) / 4096, "learning rate after warm-up");

  auto [images, labels] = image_batch(batch, 3, s.image, s.image, s.classes);
  Tensor x = norm("stem.norm", patches("stem", channels_last(images), s.widths[0], 4));
  int64_t count = 0, all = 0;
  for (int64_t blocks : s.blocks) all += blocks;
  for (size_t stage = 0; stage < s.blocks.size(); ++stage) {
    std::string name = "stage" + std::to_string(stage);
    if (stage > 0) x = patches(name + ".shrink", norm(name + ".norm", x), s.widths[stage], 2);
    for (int64_t i = 0; i < s.blocks[stage]; ++i, ++count)
      x = block(name + ".block" + std::to_string(i), x, skipped * double(count) / double(all - 1));
  }
  Tensor logits = linear("head", norm("norm", mean(x, {1, 2})), s.classes);
  output("logits", logits);
  minimize(cross_entropy(logits, labels, {.label_smoothing = 0.1}),
           AdamW{.learning_rate = lr, .weight_decay = 0.05, .warmup_steps = 10});
}
