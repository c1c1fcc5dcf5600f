// U-Net (Ronneberger, Fischer, Brox 2015): a class for every pixel. Convolutions keep the image's size, as nearly all
// who use it have it, where the paper's are a border smaller.
//   hetsynth run unet.cpp --set size=tiny
//   hetsynth run unet.cpp --data cells/             (images.npy [samples, 1, h, w], masks.npy [samples, h, w])
// Model: U-Net | 31030658 parameters
#include <cmath>
#include <string>
#include <vector>

#include "hetsynth/hetsynth.h"
using namespace hetsynth;

struct Size {
  int64_t image, width, levels, classes, batch;
};

/// Two convolutions of 3 x 3, each with a bias and a relu.
Tensor twice(const std::string& name, Tensor x, int64_t outputs) {
  for (const char* part : {".conv1", ".conv2"}) {
    double deviation = std::sqrt(2.0 / double(9 * x.size(1)));
    Tensor weight = parameter(name + part + ".weight", {outputs, x.size(1), 3, 3}, normal(deviation));
    Tensor bias = parameter(name + part + ".bias", {outputs, 1, 1}, zeros());
    x = relu(conv2d(x, weight, {.padding = 1}) + bias);
  }
  return x;
}

void model() {
  Size s = choice<Size>("size", "published", {{"published", {512, 64, 4, 2, 4}}, {"tiny", {16, 4, 2, 3, 6}}},
                        "published size, or tiny");
  int64_t batch = option("batch", s.batch, "images per step");
  double lr = option("lr", 1e-4, "learning rate");

  Tensor images = input("images", {batch, 1, s.image, s.image}, f32);
  Tensor masks = input("masks", {batch, s.image, s.image}, i32, {.classes = s.classes});

  std::vector<Tensor> skips;
  Tensor x = images;
  for (int64_t level = 0; level < s.levels; ++level) {
    x = twice("down" + std::to_string(level), x, s.width << level);
    skips.push_back(x);
    x = max_pool2d(x, 2);
  }
  x = twice("bottom", x, s.width << s.levels);
  for (int64_t level = s.levels; level-- > 0;) {
    std::string name = "up" + std::to_string(level);
    int64_t width = s.width << level;
    Tensor weight = parameter(name + ".grow.weight", {2 * width, width, 2, 2}, normal(std::sqrt(1.0 / double(width))));
    Tensor bias = parameter(name + ".grow.bias", {width, 1, 1}, zeros());
    Tensor grown = conv_transpose2d(x, weight, {.stride = 2}) + bias;
    x = twice(name, concat({skips[size_t(level)], grown}, 1), width);
  }
  Tensor weight = parameter("head.weight", {s.classes, s.width, 1, 1}, normal(0.1));
  Tensor bias = parameter("head.bias", {s.classes, 1, 1}, zeros());
  Tensor logits = transpose(conv2d(x, weight) + bias, {0, 2, 3, 1});
  output("logits", logits);
  metric("accuracy", mean(to_float(argmax(logits, -1) == masks)));
  minimize(cross_entropy(logits, masks), AdamW{.learning_rate = lr});
}
