// Inception-v3 (Szegedy, Vanhoucke, Ioffe, Shlens, Wojna 2015) with its auxiliary head.
//   hetsynth run inception_v3.cpp --set size=tiny
// Model: Inception-v3 | 27161264 parameters
#include <cmath>
#include <string>

#include "hetsynth/hetsynth.h"
using namespace hetsynth;

struct Config {
  int64_t image = 299, divide = 1, classes = 1000, batch = 64;
  double rate = 0.02;
  Extent2d auxiliary_window = 5, auxiliary_stride = 3;
};
Config c;

/// Convolution, batch normalisation, relu.
Tensor conv(const std::string& name, Tensor x, int64_t outputs, Extent2d window, Conv2d options = {}) {
  outputs /= c.divide;
  double deviation = std::sqrt(2.0 / double(x.size(1) * window.height * window.width));
  Tensor weight = parameter(name + ".weight", {outputs, x.size(1), window.height, window.width}, normal(deviation));
  Tensor gain = parameter(name + ".norm.gain", {outputs}, ones());
  Tensor bias = parameter(name + ".norm.bias", {outputs}, zeros());
  return relu(batchnorm(conv2d(x, weight, options), gain, bias, 1e-3));
}
Tensor row(const std::string& name, Tensor x, int64_t outputs, int64_t length) {
  return conv(name, x, outputs, {1, length}, {.padding = {0, length / 2}});
}
Tensor column(const std::string& name, Tensor x, int64_t outputs, int64_t length) {
  return conv(name, x, outputs, {length, 1}, {.padding = {length / 2, 0}});
}
Tensor average(Tensor x) { return avg_pool2d(x, 3, {.stride = 1, .padding = 1}); }

/// Figure 5: 35 x 35 positions.
Tensor inception_a(const std::string& name, Tensor x, int64_t pooled) {
  Tensor one = conv(name + ".one", x, 64, 1);
  Tensor five = conv(name + ".five2", conv(name + ".five1", x, 48, 1), 64, 5, {.padding = 2});
  Tensor three = conv(name + ".three2", conv(name + ".three1", x, 64, 1), 96, 3, {.padding = 1});
  three = conv(name + ".three3", three, 96, 3, {.padding = 1});
  return concat({one, five, three, conv(name + ".pool", average(x), pooled, 1)}, 1);
}

/// To 17 x 17 positions.
Tensor reduction_a(const std::string& name, Tensor x) {
  Tensor three = conv(name + ".three", x, 384, 3, {.stride = 2});
  Tensor twice = conv(name + ".twice2", conv(name + ".twice1", x, 64, 1), 96, 3, {.padding = 1});
  twice = conv(name + ".twice3", twice, 96, 3, {.stride = 2});
  return concat({three, twice, max_pool2d(x, 3, {.stride = 2})}, 1);
}

/// Figure 6: 7 x 7 windows as rows and columns.
Tensor inception_b(const std::string& name, Tensor x, int64_t width) {
  Tensor one = conv(name + ".one", x, 192, 1);
  Tensor seven = row(name + ".seven2", conv(name + ".seven1", x, width, 1), width, 7);
  seven = column(name + ".seven3", seven, 192, 7);
  Tensor twice = column(name + ".twice2", conv(name + ".twice1", x, width, 1), width, 7);
  twice = column(name + ".twice4", row(name + ".twice3", twice, width, 7), width, 7);
  twice = row(name + ".twice5", twice, 192, 7);
  return concat({one, seven, twice, conv(name + ".pool", average(x), 192, 1)}, 1);
}

/// To 8 x 8 positions.
Tensor reduction_b(const std::string& name, Tensor x) {
  Tensor three = conv(name + ".three2", conv(name + ".three1", x, 192, 1), 320, 3, {.stride = 2});
  Tensor seven = row(name + ".seven2", conv(name + ".seven1", x, 192, 1), 192, 7);
  seven = conv(name + ".seven4", column(name + ".seven3", seven, 192, 7), 192, 3, {.stride = 2});
  return concat({three, seven, max_pool2d(x, 3, {.stride = 2})}, 1);
}

/// Figure 7: filters side by side.
Tensor inception_c(const std::string& name, Tensor x) {
  Tensor one = conv(name + ".one", x, 320, 1);
  Tensor three = conv(name + ".three1", x, 384, 1);
  Tensor twice = conv(name + ".twice2", conv(name + ".twice1", x, 448, 1), 384, 3, {.padding = 1});
  return concat({one, row(name + ".three_row", three, 384, 3), column(name + ".three_column", three, 384, 3),
                 row(name + ".twice_row", twice, 384, 3), column(name + ".twice_column", twice, 384, 3),
                 conv(name + ".pool", average(x), 192, 1)},
                1);
}

Tensor linear(const std::string& name, Tensor x) {
  Tensor weight = parameter(name + ".weight", {x.size(1), c.classes}, normal(0.01));
  Tensor bias = parameter(name + ".bias", {c.classes}, zeros());
  return matmul(x, weight) + bias;
}

Tensor auxiliary_head(Tensor x) {
  Tensor small = conv("auxiliary.conv1", avg_pool2d(x, c.auxiliary_window, {.stride = c.auxiliary_stride}), 128, 1);
  return linear("auxiliary.fc", mean(conv("auxiliary.conv2", small, 768, 5), {2, 3}));
}

void model() {
  c = Config();
  if (choice<bool>("size", "published", {{"published", false}, {"tiny", true}})) c = {107, 16, 10, 12, 0.02, 1, 1};
  int64_t batch = option("batch", c.batch, "images per step");
  // In proportion to the batch (Goyal et al. 2017).
  double lr = option("lr", c.rate * double(batch) / double(c.batch), "learning rate");
  double drop = option("dropout", 0.5, "share of features dropped");

  auto [images, labels] = image_batch(batch, 3, c.image, c.image, c.classes);
  Tensor x = conv("stem2", conv("stem1", images, 32, 3, {.stride = 2}), 32, 3);
  x = max_pool2d(conv("stem3", x, 64, 3, {.padding = 1}), 3, {.stride = 2});
  x = max_pool2d(conv("stem5", conv("stem4", x, 80, 1), 192, 3), 3, {.stride = 2});
  x = inception_a("mixed1", x, 32);
  x = inception_a("mixed2", x, 64);
  x = inception_a("mixed3", x, 64);
  x = reduction_a("mixed4", x);
  x = inception_b("mixed5", x, 128);
  x = inception_b("mixed6", x, 160);
  x = inception_b("mixed7", x, 160);
  x = inception_b("mixed8", x, 192);
  Tensor auxiliary = auxiliary_head(x);
  x = reduction_b("mixed9", x);
  x = inception_c("mixed10", x);
  x = inception_c("mixed11", x);
  Tensor logits = linear("fc", dropout(mean(x, {2, 3}), drop));
  minimize(cross_entropy(logits, labels) + 0.4 * cross_entropy(auxiliary, labels), SGD{.learning_rate = lr});
}
