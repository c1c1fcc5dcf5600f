// DLRM, the deep learning recommendation model (Naumov et al. 2019), at its size for the Criteo Kaggle data: 13
// numbers, 26 categories with embeddings of 16 features, bottom MLP 13-512-256-64-16, dot interaction of all pairs, top
// MLP 367-512-256-1; 540 million parameters.
//   hetsynth run dlrm.cpp --set size=tiny
//   hetsynth run dlrm.cpp --data criteo:train.txt
// Model: DLRM | 540M parameters
#include <cmath>

#include "hetsynth/hetsynth.h"
using namespace hetsynth;

/// Layers with a rectifier behind each, but for the last if `open`.
Tensor mlp(const std::string& name, Tensor x, const std::vector<int64_t>& widths, bool open) {
  for (size_t i = 0; i < widths.size(); ++i) {
    std::string layer = name + std::to_string(i);
    double deviation = std::sqrt(2.0 / double(x.size(-1) + widths[i]));
    Tensor weight = parameter(layer + ".weight", {x.size(-1), widths[i]}, normal(deviation));
    Tensor bias = parameter(layer + ".bias", {widths[i]}, normal(std::sqrt(1.0 / double(widths[i]))));
    x = matmul(x, weight) + bias;
    if (!open || i + 1 < widths.size()) x = relu(x);
  }
  return x;
}

/// Products of all pairs of rows of [batch, rows, features]: below the diagonal of x x^T, [batch, rows (rows - 1) / 2].
Tensor interactions(Tensor x) {
  Tensor products = einsum("bif,bjf->bij", x, x);
  std::vector<Tensor> rows;
  for (int64_t i = 1; i < x.size(1); ++i)
    rows.push_back(reshape(slice(slice(products, 1, i, i + 1), 2, 0, i), {x.size(0), i}));
  return concat(rows, 1);
}

void model() {
  bool tiny = choice<bool>("size", "published", {{"published", false}, {"tiny", true}});
  int64_t batch = option("batch", tiny ? 24 : 2048, "rows per step");
  int64_t width = option("features", tiny ? 4 : 16, "features per category");
  double lr = option("lr", 0.1, "learning rate");
  std::vector<int64_t> sizes = {1460,  583,  10131227, 2202608, 305, 24,     12517,   633,   3,
                                93145, 5683, 8351593,  3194,    27,  14992,  5461306, 10,    5652,
                                2173,  4,    7046547,  18,      15,  286181, 105,     142572};
  std::vector<int64_t> bottom = {512, 256, 64, width}, top = {512, 256, 1};
  if (tiny) sizes = {40, 7, 100, 3}, bottom = {16, width}, top = {16, 1};

  auto [numeric, categories, labels] = table_batch(batch, tiny ? 5 : 13, sizes);
  std::vector<Tensor> rows = {reshape(mlp("bottom", numeric, bottom, false), {batch, 1, width})};
  for (size_t i = 0; i < categories.size(); ++i) {
    Tensor table =
        parameter("embedding" + std::to_string(i), {sizes[i], width}, uniform(std::sqrt(1.0 / double(sizes[i]))));
    rows.push_back(reshape(embedding(table, categories[i]), {batch, 1, width}));
  }
  Tensor pairs = interactions(concat(rows, 1));
  Tensor features = concat({reshape(rows[0], {batch, width}), pairs}, 1);
  Tensor score = reshape(mlp("top", features, top, true), {batch});
  // Binary cross-entropy of the score, computed without overflow.
  Tensor loss = mean(relu(score) - score * labels + log(1 + exp(-maximum(score, -score))));
  minimize(loss, SGD{.learning_rate = lr, .momentum = 0});
}
