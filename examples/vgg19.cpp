// VGG-19 (Simonyan and Zisserman 2014, configuration E).
//   hetsynth run vgg19.cpp --set size=tiny
// Model: VGG19 | 143667240 parameters
#include <cmath>
#include <string>

#include "hetsynth/hetsynth.h"
using namespace hetsynth;

struct Config {
  int64_t image = 224, width = 64, hidden = 4096, pooled = 7, classes = 1000, batch = 128;
  double rate = 0.005;  ///< the paper's 0.01 for 256 images, in proportion to the batch
};

/// Initialised by He et al. 2015 for the way back, as in torchvision's vgg.py; max_pool2d enlarges what goes forward.
Tensor conv(const std::string& name, Tensor x, int64_t outputs) {
  Tensor weight =
      parameter(name + ".weight", {outputs, x.size(1), 3, 3}, normal(std::sqrt(2.0 / double(9 * outputs))));
  Tensor bias = parameter(name + ".bias", {outputs, 1, 1}, zeros());
  return relu(conv2d(x, weight, {.padding = 1}) + bias);
}

Tensor linear(const std::string& name, Tensor x, int64_t outputs) {
  Tensor weight = parameter(name + ".weight", {x.size(1), outputs}, uniform(1 / std::sqrt(double(x.size(1)))));
  Tensor bias = parameter(name + ".bias", {outputs}, zeros());
  return matmul(x, weight) + bias;
}

void model() {
  Config c;
  if (choice<bool>("size", "published", {{"published", false}, {"tiny", true}})) c = {32, 4, 32, 1, 10, 12, 0.01};
  int64_t batch = option("batch", c.batch, "images per step");
  // In proportion to the batch (Goyal et al. 2017): what one sample can move the weights does not depend on it.
  double lr = option("lr", c.rate * double(batch) / double(c.batch), "learning rate");
  double drop = option("dropout", 0.5, "share of hidden units dropped");

  auto [images, labels] = image_batch(batch, 3, c.image, c.image, c.classes);
  Tensor x = images;
  struct Stage {
    int64_t convolutions, outputs;
  };
  int number = 0;
  for (auto [convolutions, outputs] :
       {Stage{2, c.width}, {2, 2 * c.width}, {4, 4 * c.width}, {4, 8 * c.width}, {4, 8 * c.width}}) {
    for (int64_t i = 0; i < convolutions; ++i) x = conv("conv" + std::to_string(++number), x, outputs);
    x = max_pool2d(x, 2);
  }
  Tensor features = reshape(adaptive_avg_pool2d(x, c.pooled), {batch, -1});
  Tensor hidden = dropout(relu(linear("fc1", features, c.hidden)), drop);
  hidden = dropout(relu(linear("fc2", hidden, c.hidden)), drop);
  Tensor logits = linear("fc3", hidden, c.classes);
  minimize(cross_entropy(logits, labels), SGD{.learning_rate = lr});
}
