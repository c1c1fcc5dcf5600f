// DCGAN (Radford, Metz, Chintala 2016): a generator makes images of noise, a discriminator tells them from those of the
// data, and each is trained against the other (Goodfellow et al. 2014): two losses, each of its own parameters.
//   hetsynth run gan.cpp --set size=tiny
//   hetsynth run gan.cpp --set size=tiny --set d_steps=2      two steps of the discriminator, one of the generator, ...
// Model: DCGAN | 6342272 parameters
#include "hetsynth/hetsynth.h"
using namespace hetsynth;

struct Size {
  int64_t doublings;  ///< images are 4 * 2^doublings pixels high and wide
  int64_t width;      ///< channels beside the images
  int64_t noise, batch;
};

struct Normalization {
  Tensor gain, bias;
};

Normalization normalization(const std::string& name, int64_t channels) {
  return {parameter(name + ".gain", {channels}, ones()), parameter(name + ".bias", {channels}, zeros())};
}

/// Noise becomes 4 x 4 pixels of many channels; every layer doubles the extents and halves the channels.
Tensor generate(Tensor noise, const Size& s) {
  Tensor x = reshape(noise, {noise.size(0), s.noise, 1, 1});
  for (int64_t i = 0; i <= s.doublings; ++i) {
    const bool last = i == s.doublings;
    std::string name = "generator.layer" + std::to_string(i);
    int64_t channels = last ? 3 : s.width << (s.doublings - 1 - i);
    Tensor weight = parameter(name + ".weight", {x.size(1), channels, 4, 4}, normal(0.02));
    x = i == 0 ? conv_transpose2d(x, weight) : conv_transpose2d(x, weight, {.stride = 2, .padding = 1});
    if (last) break;
    Normalization n = normalization(name + ".norm", channels);
    x = relu(batchnorm(x, n.gain, n.bias));
  }
  return tanh(x);
}

/// Made once, and used for images of the data and for made ones.
struct Discriminator {
  std::vector<Tensor> weights;
  std::vector<Normalization> norms;

  explicit Discriminator(const Size& s) {
    for (int64_t i = 0; i <= s.doublings; ++i) {
      std::string name = "discriminator.layer" + std::to_string(i);
      int64_t inputs = i == 0 ? 3 : s.width << (i - 1), outputs = i == s.doublings ? 1 : s.width << i;
      weights.push_back(parameter(name + ".weight", {outputs, inputs, 4, 4}, normal(0.02)));
      if (i > 0 && i < s.doublings) norms.push_back(normalization(name + ".norm", outputs));
    }
  }

  /// A number for each image: above 0 for those taken for real ones.
  Tensor operator()(Tensor x) const {
    for (size_t i = 0; i + 1 < weights.size(); ++i) {
      x = conv2d(x, weights[i], {.stride = 2, .padding = 1});
      if (i > 0) x = batchnorm(x, norms[i - 1].gain, norms[i - 1].bias);
      x = leaky_relu(x, 0.2);
    }
    return reshape(conv2d(x, weights.back()), {x.size(0)});
  }
};

void model() {
  Size s = choice<Size>("size", "published", {{"published", {4, 64, 100, 128}}, {"tiny", {2, 4, 8, 12}}});
  int64_t batch = option("batch", s.batch, "images per step, and as many made ones");
  int64_t d_steps = option("d_steps", 0, "steps of the discriminator before one of the generator; 0: both in every step");
  double lr = option("lr", 2e-4, "learning rate of both");

  int64_t extent = int64_t{4} << s.doublings;
  auto [images, labels] = image_batch(batch, 3, extent, extent, 10);
  Tensor made = generate(random_normal({batch, s.noise}), s);
  output("images", made);
  Discriminator discriminate(s);
  Tensor of_data = discriminate(images), of_made = discriminate(made);
  Tensor yes = full({batch}, 1.0), no = full({batch}, 0.0);
  // No gradient of the first loss reaches the generator, and none of the second one changes the discriminator.
  minimize(binary_cross_entropy_with_logits(of_data, yes) + binary_cross_entropy_with_logits(of_made, no),
           Adam{.learning_rate = lr, .beta1 = 0.5},
           {.name = "discriminator", .parameters = "discriminator\\.", .steps = d_steps});
  minimize(binary_cross_entropy_with_logits(of_made, yes), Adam{.learning_rate = lr, .beta1 = 0.5},
           {.name = "generator", .parameters = "generator\\.", .steps = d_steps > 0 ? 1 : 0});
}
