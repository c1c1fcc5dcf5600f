// ResNeXt-50 32x4d (Xie, Girshick, Dollar, Tu, He 2016).
//   hetsynth run resnext50.cpp --set size=tiny
// Model: ResNeXt-50 32x4d | 25028904 parameters
#include <cmath>
#include <string>
#include <vector>

#include "hetsynth/hetsynth.h"
using namespace hetsynth;

struct Config {
  int64_t image = 224, width = 64, classes = 1000, batch = 64;
  double rate = 0.02;
  int64_t groups = 32;
  std::vector<int64_t> blocks = {3, 4, 6, 3};
};

/// Convolution and batch normalisation.
Tensor conv(const std::string& name, Tensor x, int64_t outputs, int64_t window, Conv2d options = {}) {
  int64_t inputs = x.size(1) / options.groups;
  options.padding = window / 2;
  double deviation = std::sqrt(2.0 / double(inputs * window * window));
  Tensor weight = parameter(name + ".weight", {outputs, inputs, window, window}, normal(deviation));
  Tensor gain = parameter(name + ".norm.gain", {outputs}, ones());
  Tensor bias = parameter(name + ".norm.bias", {outputs}, zeros());
  return batchnorm(conv2d(x, weight, options), gain, bias);
}

/// 1 x 1, grouped 3 x 3 and 1 x 1 around a shortcut, which is projected where the shape changes.
Tensor bottleneck(const std::string& name, Tensor x, int64_t width, int64_t stride, int64_t groups) {
  Tensor narrow = relu(conv(name + ".conv1", x, 2 * width, 1));
  Tensor middle = relu(conv(name + ".conv2", narrow, 2 * width, 3, {.stride = stride, .groups = groups}));
  Tensor wide = conv(name + ".conv3", middle, 4 * width, 1);
  bool changes = stride != 1 || x.size(1) != 4 * width;
  Tensor shortcut = changes ? conv(name + ".shortcut", x, 4 * width, 1, {.stride = stride}) : x;
  return relu(wide + shortcut);
}

void model() {
  Config c;
  if (choice<bool>("size", "published", {{"published", false}, {"tiny", true}}))
    c = {64, 4, 10, 12, 0.02, 4, {1, 2, 1, 1}};
  int64_t batch = option("batch", c.batch, "images per step");
  // In proportion to the batch (Goyal et al. 2017).
  double lr = option("lr", c.rate * double(batch) / double(c.batch), "learning rate");

  auto [images, labels] = image_batch(batch, 3, c.image, c.image, c.classes);
  Tensor x = relu(conv("stem", images, c.width, 7, {.stride = 2}));
  x = max_pool2d(x, 3, {.stride = 2, .padding = 1});
  for (size_t stage = 0; stage < c.blocks.size(); ++stage)
    for (int64_t i = 0; i < c.blocks[stage]; ++i) {
      std::string name = "stage" + std::to_string(stage + 1) + ".block" + std::to_string(i + 1);
      x = bottleneck(name, x, c.width << stage, stage > 0 && i == 0 ? 2 : 1, c.groups);
    }
  Tensor features = mean(x, {2, 3});
  // 0.01 as in Goyal et al. 2017, section 5.1.
  Tensor weight = parameter("fc.weight", {features.size(1), c.classes}, normal(0.01));
  Tensor bias = parameter("fc.bias", {c.classes}, zeros());
  Tensor logits = matmul(features, weight) + bias;
  minimize(cross_entropy(logits, labels), SGD{.learning_rate = lr});
}
