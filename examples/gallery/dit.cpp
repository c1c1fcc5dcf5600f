// A diffusion transformer (Peebles and Xie 2023), DiT-XL/2: it learns to tell the noise of a noisy latent image. Step
// of the noise and class of the image set scale, shift and gate of every block (adaLN-Zero). The latent images are
// those of an autoencoder, as data. Weights are averaged over steps for sampling.
//   hetsynth run dit.cpp --set size=tiny
// Model: DiT-XL/2 | 675M parameters
#include <cmath>
#include <vector>

#include "hetsynth/hetsynth.h"
using namespace hetsynth;

struct Size {
  int64_t layers, heads, width, patch, image, classes, batch;
};
constexpr int64_t noise_steps = 1000, channels = 4;

Tensor linear(const std::string& name, Tensor x, int64_t outputs, Init init = normal(0.02)) {
  Tensor weight = parameter(name + ".weight", {x.size(-1), outputs}, init);
  return matmul(x, weight) + parameter(name + ".bias", {outputs}, zeros());
}

/// sin and cos of a position at `width` / 2 frequencies, from 1 down to 1e-4.
std::vector<double> sinusoid(double position, int64_t width) {
  std::vector<double> out;
  for (int half = 0; half < 2; ++half)
    for (int64_t i = 0; i < width / 2; ++i) {
      double angle = position * std::exp(-std::log(1e4) * double(i) / double(width / 2));
      out.push_back(half ? std::cos(angle) : std::sin(angle));
    }
  return out;
}

/// A row for each of `side` x `side` places: half of the features for its row, half for its column.
Tensor places(int64_t side, int64_t width) {
  std::vector<double> table;
  for (int64_t y = 0; y < side; ++y)
    for (int64_t x = 0; x < side; ++x)
      for (int64_t along : {y, x}) {
        std::vector<double> part = sinusoid(double(along), width / 2);
        table.insert(table.end(), part.begin(), part.end());
      }
  return constant(table, {side * side, width});
}

/// A row for each step of the noise; the network's own features of it are made from these.
Tensor times(int64_t width) {
  std::vector<double> table;
  for (int64_t t = 0; t < noise_steps; ++t) {
    std::vector<double> row = sinusoid(double(t), width);
    table.insert(table.end(), row.begin(), row.end());
  }
  return constant(table, {noise_steps, width});
}

/// How much of the image is left after t steps of noise whose variance grows from 1e-4 to 0.02 (Ho et al. 2020).
Tensor left_of_image() {
  std::vector<double> table;
  double left = 1;
  for (int64_t t = 0; t < noise_steps; ++t) {
    left *= 1 - (1e-4 + (0.02 - 1e-4) * double(t) / double(noise_steps - 1));
    table.push_back(left);
  }
  return constant(table, {noise_steps, 1});
}

Tensor normalised(Tensor x) {
  return layernorm(x, full({x.size(-1)}, 1.0), full({x.size(-1)}, 0.0), 1e-6);
}

/// Six vectors of the condition [batch, width]: shift, scale and gate of attention, and of the feed-forward part.
std::vector<Tensor> modulation(const std::string& name, Tensor condition, int64_t count, int64_t width) {
  Tensor all = linear(name, silu(condition), count * width, zeros());
  std::vector<Tensor> out;
  for (int64_t i = 0; i < count; ++i)
    out.push_back(reshape(slice(all, 1, i * width, (i + 1) * width), {condition.size(0), 1, width}));
  return out;
}

Tensor block(const std::string& name, Tensor x, Tensor condition, const Size& s) {
  int64_t head = s.width / s.heads;
  std::vector<Tensor> m = modulation(name + ".condition", condition, 6, s.width);
  Tensor in = normalised(x) * (1 + m[1]) + m[0];
  auto project = [&](const std::string& part) {
    Tensor weight = parameter(name + part + ".weight", {s.width, s.heads, head}, normal(0.02));
    return einsum("btc,chd->bthd", in, weight) + parameter(name + part + ".bias", {s.heads, head}, zeros());
  };
  Tensor mixed = attention(project(".query"), project(".key"), project(".value"));
  Tensor weight = parameter(name + ".out.weight", {s.heads, head, s.width}, normal(0.02));
  Tensor attended = einsum("bthd,hdc->btc", mixed, weight) + parameter(name + ".out.bias", {s.width}, zeros());
  x = x + m[2] * attended;
  in = normalised(x) * (1 + m[4]) + m[3];
  return x + m[5] * linear(name + ".down", gelu(linear(name + ".up", in, 4 * s.width)), s.width);
}

void model() {
  Size s = choice<Size>("size", "XL/2",
                        {{"XL/2", {28, 16, 1152, 2, 32, 1000, 64}}, {"tiny", {2, 2, 32, 2, 8, 10, 6}}},
                        "published size, or tiny");
  int64_t batch = option("batch", s.batch, "latent images per step");
  double lr = option("lr", 1e-4, "learning rate");
  int64_t side = s.image / s.patch, features = channels * s.patch * s.patch;

  Tensor latents = input("latents", {batch, channels, s.image, s.image}, f32);
  Tensor labels = input("labels", {batch}, i32, {.classes = s.classes});

  // A tenth of the images are shown without their class, so that samples can be guided by it or not.
  Tensor shown = where(random_uniform({batch}) < 0.1, int(s.classes), labels);
  Tensor step = to_int(random_uniform({batch}, 0, noise_steps));
  Tensor noise = random_normal(latents.shape());
  Tensor left = reshape(embedding(left_of_image(), step), {batch, 1, 1, 1});
  Tensor noisy = sqrt(left) * latents + sqrt(1 - left) * noise;

  Tensor tiles = reshape(noisy, {batch, channels, side, s.patch, side, s.patch});
  Tensor rows = reshape(transpose(tiles, {0, 2, 4, 1, 3, 5}), {batch, side * side, features});
  Tensor x = linear("patch", rows, s.width) + places(side, s.width);
  Tensor time = linear("time.in", embedding(times(256), step), s.width);
  Tensor classes = parameter("classes", {s.classes + 1, s.width}, normal(0.02));
  Tensor condition = linear("time.out", silu(time), s.width) + embedding(classes, shown);
  for (int64_t i = 0; i < s.layers; ++i)
    x = checkpoint([&] { return block("block" + std::to_string(i), x, condition, s); });
  std::vector<Tensor> m = modulation("last.condition", condition, 2, s.width);
  Tensor told = linear("last", normalised(x) * (1 + m[1]) + m[0], features, zeros());
  Tensor image = transpose(reshape(told, {batch, side, side, channels, s.patch, s.patch}), {0, 3, 1, 4, 2, 5});
  Tensor predicted = reshape(image, latents.shape());
  output("predicted", predicted);
  minimize(mean_squared_error(predicted, noise), AdamW{.learning_rate = lr, .weight_decay = 0});
}
