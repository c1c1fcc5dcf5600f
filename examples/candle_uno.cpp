// CANDLE-Uno: the response of tumour cells to pairs of drugs (Xia et al. 2018), at the size of FlexFlow's
// examples/cpp/candle_uno: doses as they are, cells and drugs through eight layers of 4192 features each, all together
// through four more; layers without bias.
//   hetsynth run candle_uno.cpp --set size=tiny
//   hetsynth run candle_uno.cpp --data FOLDER      (dose1.npy, cell_rnaseq.npy, ... and targets.npy)
// Model: CANDLE-Uno
#include "hetsynth/hetsynth.h"
using namespace hetsynth;

Tensor dense(const std::string& name, Tensor x, int64_t width) {
  double half_width = std::sqrt(6.0 / double(x.size(-1) + width));
  return matmul(x, parameter(name, {x.size(-1), width}, uniform(half_width)));
}

Tensor stack(const std::string& name, Tensor x, int64_t layers, int64_t width) {
  for (int64_t i = 0; i < layers; ++i) x = relu(dense(name + std::to_string(i), x, width));
  return x;
}

void model() {
  bool tiny = choice<bool>("size", "published", {{"published", false}, {"tiny", true}});
  int64_t width = option("width", tiny ? 16 : 4192, "features per layer");
  int64_t feature_layers = option("feature_layers", tiny ? 2 : 8, "layers of each group of features");
  int64_t layers = option("layers", tiny ? 2 : 4, "layers of all together");
  int64_t batch = option("batch", tiny ? 24 : 64, "samples per step");
  double lr = option("lr", tiny ? 0.02 : 0.01, "learning rate");

  int64_t cells = tiny ? 9 : 942, descriptors = tiny ? 20 : 5270, prints = tiny ? 12 : 2048;
  std::vector<Feature> groups = {{"dose1", 1},
                                 {"dose2", 1},
                                 {"cell_rnaseq", cells},
                                 {"drug1_descriptors", descriptors},
                                 {"drug1_fingerprints", prints},
                                 {"drug2_descriptors", descriptors},
                                 {"drug2_fingerprints", prints}};
  auto [features, growth] = feature_batch(batch, groups);
  std::vector<Tensor> encoded;
  for (size_t i = 0; i < groups.size(); ++i) {
    bool dose = groups[i].width == 1;
    encoded.push_back(dose ? features[i] : stack(groups[i].name + ".dense", features[i], feature_layers, width));
  }
  Tensor x = stack("dense", concat(encoded, 1), layers, width);
  Tensor predicted = reshape(dense("response", x, 1), {batch});
  Tensor error = predicted - growth;
  minimize(mean(error * error), SGD{.learning_rate = lr, .momentum = 0});
}
