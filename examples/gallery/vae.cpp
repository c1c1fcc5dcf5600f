// A variational autoencoder of images (Kingma and Welling 2014) with the convolutions of beta-VAE (Higgins et al.
// 2017): an image becomes a distribution of ten numbers, a draw of which becomes an image again.
//   hetsynth run vae.cpp --set size=tiny
//   hetsynth run vae.cpp --data faces/              (images.npy [samples, 3, 64, 64] in [0, 1])
// Model: beta-VAE
#include <cmath>
#include <vector>

#include "hetsynth/hetsynth.h"
using namespace hetsynth;

struct Size {
  int64_t image, hidden, latent, batch;
  std::vector<int64_t> channels;
};

Tensor linear(const std::string& name, Tensor x, int64_t outputs) {
  Tensor weight = parameter(name + ".weight", {x.size(-1), outputs}, normal(std::sqrt(1.0 / double(x.size(-1)))));
  return matmul(x, weight) + parameter(name + ".bias", {outputs}, zeros());
}

/// Windows of 4 x 4 that halve the image.
Tensor halve(const std::string& name, Tensor x, int64_t outputs) {
  double deviation = std::sqrt(2.0 / double(16 * x.size(1)));
  Tensor weight = parameter(name + ".weight", {outputs, x.size(1), 4, 4}, normal(deviation));
  return conv2d(x, weight, {.stride = 2, .padding = 1}) + parameter(name + ".bias", {outputs, 1, 1}, zeros());
}

/// Windows of 4 x 4 that double the image, as `halve` the other way round.
Tensor twice(const std::string& name, Tensor x, int64_t outputs) {
  double deviation = std::sqrt(2.0 / double(4 * x.size(1)));
  Tensor weight = parameter(name + ".weight", {x.size(1), outputs, 4, 4}, normal(deviation));
  Tensor grown = conv_transpose2d(x, weight, {.stride = 2, .padding = 1});
  return grown + parameter(name + ".bias", {outputs, 1, 1}, zeros());
}

void model() {
  Size s = choice<Size>("size", "published",
                        {{"published", {64, 256, 10, 64, {32, 32, 64, 64}}}, {"tiny", {16, 16, 3, 6, {4, 6}}}},
                        "published size, or tiny");
  int64_t batch = option("batch", s.batch, "images per step");
  double beta = option("beta", 4.0, "what a nat of the distribution costs");
  double lr = option("lr", 1e-4, "learning rate");

  Tensor images = input("images", {batch, 3, s.image, s.image}, f32, {.lowest = 0, .highest = 1});
  Tensor x = images;
  for (size_t i = 0; i < s.channels.size(); ++i) x = relu(halve("see" + std::to_string(i), x, s.channels[i]));
  Dims seen = x.shape();
  x = relu(linear("see.out", reshape(x, {batch, -1}), s.hidden));
  Tensor center = linear("center", x, s.latent), log_variance = linear("log_variance", x, s.latent);
  Tensor drawn = center + exp(0.5 * log_variance) * random_normal({batch, s.latent});

  Tensor y = relu(linear("draw.in", drawn, s.hidden));
  y = reshape(relu(linear("draw.wide", y, seen[1] * seen[2] * seen[3])), seen);
  for (size_t i = s.channels.size(); i-- > 1;) y = relu(twice("draw" + std::to_string(i), y, s.channels[i - 1]));
  Tensor logits = twice("draw0", y, 3);
  output("images_again", sigmoid(logits));

  double pixels = double(3 * s.image * s.image);
  Tensor rebuilt = binary_cross_entropy_with_logits(logits, images) * pixels;
  Tensor divergence = 0.5 * mean(sum(square(center) + exp(log_variance) - log_variance - 1, 1));
  metric("divergence", divergence);
  minimize(rebuilt + beta * divergence, Adam{.learning_rate = lr});
}
