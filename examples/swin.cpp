// Swin Transformer (Liu et al. 2021): attention inside of windows, which every second block shifts by half of their
// size, and four stages between which 2 x 2 tokens are merged. The huge sizes are Galvatron's (Miao et al. 2022).
//   hetsynth run swin.cpp --set size=tiny
// Model: Swin-Huge-32 | 701M parameters | size=huge-32
// Model: Swin-Huge-48 | 1016M parameters | size=huge-48
// Model: Swin-B | 87768224 parameters | size=base
#include <cmath>

#include "hetsynth/hetsynth.h"
using namespace hetsynth;

struct Size {
  std::vector<int64_t> blocks;  ///< of each stage
  int64_t width, head, window, image, classes, batch;
};

Tensor norm(const std::string& name, Tensor x) {
  Tensor gain = parameter(name + ".gain", {x.size(-1)}, ones());
  Tensor bias = parameter(name + ".bias", {x.size(-1)}, zeros());
  return layernorm(x, gain, bias);
}

Tensor linear(const std::string& name, Tensor x, int64_t outputs) {
  Tensor weight = parameter(name + ".weight", {x.size(-1), outputs}, normal(0.02));
  Tensor bias = parameter(name + ".bias", {outputs}, zeros());
  return matmul(x, weight) + bias;
}

/// [batch, height, width, features] to [batch, windows, tokens of a window, features].
Tensor to_windows(Tensor x, int64_t window) {
  int64_t rows = x.size(1) / window, columns = x.size(2) / window;
  Tensor tiles = reshape(x, {x.size(0), rows, window, columns, window, x.size(3)});
  return reshape(transpose(tiles, {0, 1, 3, 2, 4, 5}), {x.size(0), rows * columns, window * window, x.size(3)});
}

Tensor from_windows(Tensor x, int64_t window, int64_t side) {
  int64_t count = side / window;
  Tensor tiles = reshape(x, {x.size(0), count, count, window, window, x.size(3)});
  return reshape(transpose(tiles, {0, 1, 3, 2, 4, 5}), {x.size(0), side, side, x.size(3)});
}

/// What stood `by` further on in both directions; the first rows and columns go to the end.
Tensor rolled(Tensor x, int64_t by) {
  for (int dim : {1, 2}) {
    int64_t cut = by > 0 ? by : x.size(dim) + by;
    x = concat({slice(x, dim, cut, x.size(dim)), slice(x, dim, 0, cut)}, dim);
  }
  return x;
}

/// Of token pairs of a window: which row of the table of relative positions holds their bias.
Tensor relative_position(int64_t window) {
  auto row = [&](int dim) {
    return to_float(to_int((to_float(positions({window * window, window * window}, dim)) + 0.5) / double(window)));
  };
  auto column = [&](int dim) {
    return to_float(positions({window * window, window * window}, dim)) - row(dim) * double(window);
  };
  Tensor down = row(0) - row(1) + double(window - 1), right = column(0) - column(1) + double(window - 1);
  return to_int(down * double(2 * window - 1) + right + 0.5);
}

/// -100 for token pairs that only the shift brought into one window, [windows, 1, tokens, tokens].
Tensor shift_mask(int64_t side, int64_t window, int64_t shift) {
  auto region = [&](int dim) {
    Tensor at = positions({1, side, side, 1}, dim);
    return greater_equal(at, side - window) + greater_equal(at, side - shift);
  };
  Tensor regions = to_windows(3 * region(1) + region(2), window);  // [1, windows, tokens, 1]
  int64_t count = regions.size(1), tokens = window * window;
  Tensor apart = not_equal(reshape(regions, {count, 1, tokens, 1}), reshape(regions, {count, 1, 1, tokens}));
  return -100 * apart;
}

/// b images, n windows, t and s tokens of a window, h heads of d features.
Tensor window_attention(const std::string& name, Tensor x, Tensor mask, const Size& s) {
  int64_t width = x.size(-1), heads = width / s.head, span = 2 * s.window - 1;
  auto project = [&](const std::string& part) {
    Tensor weight = parameter(name + part + ".weight", {width, heads, s.head}, normal(0.02));
    Tensor bias = parameter(name + part + ".bias", {heads, s.head}, zeros());
    return einsum("bntc,chd->bnthd", x, weight) + bias;
  };
  Tensor query = project(".query") * (1 / std::sqrt(double(s.head)));
  Tensor key = project(".key");
  Tensor value = project(".value");
  Tensor table = parameter(name + ".position", {span * span, heads}, normal(0.02));
  Tensor bias = transpose(embedding(table, relative_position(s.window)), {2, 0, 1});
  Tensor scores = einsum("bnthd,bnshd->bnhts", query, key) + bias;
  if (mask.defined()) scores = scores + mask;
  Tensor mixed = einsum("bnhts,bnshd->bnthd", softmax(scores, -1), value);
  Tensor weight = parameter(name + ".out.weight", {heads, s.head, width}, normal(0.02));
  return einsum("bnthd,hdc->bntc", mixed, weight) + parameter(name + ".out.bias", {width}, zeros());
}

Tensor block(const std::string& name, Tensor x, bool shifted, const Size& s) {
  int64_t side = x.size(1), shift = shifted && side > s.window ? s.window / 2 : 0;
  Tensor in = norm(name + ".norm1", x);
  Tensor windows = to_windows(shift ? rolled(in, shift) : in, s.window);
  Tensor mask = shift ? shift_mask(side, s.window, shift) : Tensor();
  Tensor out = from_windows(window_attention(name + ".attention", windows, mask, s), s.window, side);
  x = x + (shift ? rolled(out, -shift) : out);
  Tensor hidden = gelu(linear(name + ".up", norm(name + ".norm2", x), 4 * x.size(-1)));
  return x + linear(name + ".down", hidden, x.size(-1));
}

/// Four neighbours become one token of twice the features.
Tensor merge(const std::string& name, Tensor x) {
  int64_t side = x.size(1) / 2, width = x.size(3);
  Tensor tiles = reshape(x, {x.size(0), side, 2, side, 2, width});
  Tensor four = reshape(transpose(tiles, {0, 1, 3, 4, 2, 5}), {x.size(0), side, side, 4 * width});
  return matmul(norm(name + ".norm", four), parameter(name + ".weight", {4 * width, 2 * width}, normal(0.02)));
}

void model() {
  Size s = choice<Size>("size", "huge-32",
                        {{"base", {{2, 2, 18, 2}, 128, 32, 7, 224, 1000, 256}},
                         {"huge-32", {{2, 2, 26, 2}, 320, 32, 7, 224, 1000, 64}},
                         {"huge-48", {{2, 2, 42, 2}, 320, 32, 7, 224, 1000, 64}},
                         {"tiny", {{2, 1}, 16, 8, 2, 16, 10, 6}}},
                        "published sizes, or tiny");
  int64_t batch = option("batch", s.batch, "images per step");
  double lr = option("lr", 1e-3, "learning rate after warm-up");
  constexpr int64_t patch = 4;

  auto [images, labels] = image_batch(batch, 3, s.image, s.image, s.classes);
  int64_t side = s.image / patch;
  Tensor tiles = transpose(reshape(images, {batch, 3, side, patch, side, patch}), {0, 2, 4, 1, 3, 5});
  Tensor patches = reshape(tiles, {batch, side, side, 3 * patch * patch});
  Tensor x = norm("patch.norm", linear("patch", patches, s.width));
  for (size_t stage = 0; stage < s.blocks.size(); ++stage) {
    std::string name = "stage" + std::to_string(stage);
    if (stage > 0) x = merge(name + ".merge", x);
    for (int64_t i = 0; i < s.blocks[stage]; ++i) x = block(name + ".block" + std::to_string(i), x, i % 2 == 1, s);
  }
  Tensor logits = linear("head", mean(norm("norm", x), {1, 2}), s.classes);
  output("logits", logits);
  minimize(cross_entropy(logits, labels),
           AdamW{.learning_rate = lr, .weight_decay = 0.05, .warmup_steps = 10, .clip_norm = 5});
}
