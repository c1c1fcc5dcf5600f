// AlexNet (Krizhevsky, Sutskever, Hinton 2012), in the single-tower form of "One weird trick" (Krizhevsky 2014).
//   hetsynth run alexnet.cpp --set size=tiny
// Model: AlexNet | 61100840 parameters
#include <cmath>
#include <string>

#include "hetsynth/hetsynth.h"
using namespace hetsynth;

struct Config {
  int64_t image = 224, width = 64, hidden = 4096, pooled = 6, classes = 1000, batch = 256;
  double rate = 0.01;
};

Tensor conv(const std::string& name, Tensor x, int64_t outputs, int64_t window, Conv2d options) {
  double bound = 1 / std::sqrt(double(x.size(1) * window * window));  // torchvision's, as below
  Tensor weight = parameter(name + ".weight", {outputs, x.size(1), window, window}, uniform(bound));
  Tensor bias = parameter(name + ".bias", {outputs, 1, 1}, zeros());
  return relu(conv2d(x, weight, options) + bias);
}

Tensor linear(const std::string& name, Tensor x, int64_t outputs) {
  Tensor weight = parameter(name + ".weight", {x.size(1), outputs}, uniform(1 / std::sqrt(double(x.size(1)))));
  Tensor bias = parameter(name + ".bias", {outputs}, zeros());
  return matmul(x, weight) + bias;
}

void model() {
  Config c;
  if (choice<bool>("size", "published", {{"published", false}, {"tiny", true}})) c = {64, 4, 32, 1, 10, 12, 0.01};
  int64_t batch = option("batch", c.batch, "images per step");
  // In proportion to the batch (Krizhevsky 2014, Goyal et al. 2017).
  double lr = option("lr", c.rate * double(batch) / double(c.batch), "learning rate");
  double drop = option("dropout", 0.5, "share of hidden units dropped");

  auto [images, labels] = image_batch(batch, 3, c.image, c.image, c.classes);
  Tensor x = max_pool2d(conv("conv1", images, c.width, 11, {.stride = 4, .padding = 2}), 3, {.stride = 2});
  x = max_pool2d(conv("conv2", x, 3 * c.width, 5, {.padding = 2}), 3, {.stride = 2});
  x = conv("conv3", x, 6 * c.width, 3, {.padding = 1});
  x = conv("conv4", x, 4 * c.width, 3, {.padding = 1});
  x = max_pool2d(conv("conv5", x, 4 * c.width, 3, {.padding = 1}), 3, {.stride = 2});
  Tensor features = reshape(adaptive_avg_pool2d(x, c.pooled), {batch, -1});
  Tensor hidden = relu(linear("fc6", dropout(features, drop), c.hidden));
  hidden = relu(linear("fc7", dropout(hidden, drop), c.hidden));
  Tensor logits = linear("fc8", hidden, c.classes);
  minimize(cross_entropy(logits, labels), SGD{.learning_rate = lr});
}
