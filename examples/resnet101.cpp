// ResNet-101 (He, Zhang, Ren, Sun 2015), with the stride in the 3 x 3 convolution as in torchvision.
//   hetsynth run resnet101.cpp --set size=tiny
//   hetsynth plan resnet101.cpp --batch 1 --set row_blocks=7 --cluster ...    devices share one image
// Model: ResNet-101 | 44549160 parameters
#include <cmath>
#include <string>
#include <vector>

#include "hetsynth/hetsynth.h"
using namespace hetsynth;

struct Config {
  int64_t image = 224, width = 64, classes = 1000, batch = 64;
  double rate = 0.02;
  std::vector<int64_t> blocks = {3, 4, 23, 3};
};
int64_t row_blocks;  ///< of every image

/// Convolution and batch normalisation.
Tensor conv(const std::string& name, Tensor x, int64_t outputs, int64_t window, Conv2d options = {}) {
  int64_t inputs = x.size(1) / options.groups;
  options.padding = window / 2;
  options.row_blocks = row_blocks;
  double deviation = std::sqrt(2.0 / double(inputs * window * window));
  Tensor weight = parameter(name + ".weight", {outputs, inputs, window, window}, normal(deviation));
  Tensor gain = parameter(name + ".norm.gain", {outputs}, ones());
  Tensor bias = parameter(name + ".norm.bias", {outputs}, zeros());
  return batchnorm(conv2d(x, weight, options), gain, bias);
}

/// 1 x 1, 3 x 3 and 1 x 1 around a shortcut, which is projected where the shape changes.
Tensor bottleneck(const std::string& name, Tensor x, int64_t width, int64_t stride) {
  Tensor narrow = relu(conv(name + ".conv1", x, width, 1));
  Tensor middle = relu(conv(name + ".conv2", narrow, width, 3, {.stride = stride}));
  Tensor wide = conv(name + ".conv3", middle, 4 * width, 1);
  bool changes = stride != 1 || x.size(1) != 4 * width;
  Tensor shortcut = changes ? conv(name + ".shortcut", x, 4 * width, 1, {.stride = stride}) : x;
  return relu(wide + shortcut);
}

void model() {
  Config c;
  if (choice<bool>("size", "published", {{"published", false}, {"tiny", true}}))
    c = {64, 4, 10, 12, 0.02, {1, 2, 1, 1}};
  int64_t batch = option("batch", c.batch, "images per step");
  row_blocks =
      option("row_blocks", 1, "blocks of rows by which devices can share an image, for batches that are too small");
  // In proportion to the batch (Goyal et al. 2017).
  double lr = option("lr", c.rate * double(batch) / double(c.batch), "learning rate");

  auto [images, labels] = image_batch(batch, 3, c.image, c.image, c.classes);
  Tensor x = relu(conv("stem", split_rows(images, row_blocks), c.width, 7, {.stride = 2}));
  x = max_pool2d(x, 3, {.stride = 2, .padding = 1, .row_blocks = row_blocks});
  for (size_t stage = 0; stage < c.blocks.size(); ++stage)
    for (int64_t i = 0; i < c.blocks[stage]; ++i) {
      std::string name = "stage" + std::to_string(stage + 1) + ".block" + std::to_string(i + 1);
      x = bottleneck(name, x, c.width << stage, stage > 0 && i == 0 ? 2 : 1);
    }
  Tensor features = mean(join_rows(x, row_blocks), {2, 3});
  // 0.01 as in Goyal et al. 2017, section 5.1.
  Tensor weight = parameter("fc.weight", {features.size(1), c.classes}, normal(0.01));
  Tensor bias = parameter("fc.bias", {c.classes}, zeros());
  Tensor logits = matmul(features, weight) + bias;
  minimize(cross_entropy(logits, labels), SGD{.learning_rate = lr});
}
