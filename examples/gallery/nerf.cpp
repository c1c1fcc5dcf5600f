// A neural radiance field (Mildenhall et al. 2020): colour and density of a scene at any place, learnt from rays of
// photographs. A coarse network says where on a ray something is; a fine one looks there.
//   hetsynth run nerf.cpp --set size=tiny
//   hetsynth run nerf.cpp --data lego/              (origins.npy, directions.npy, colours.npy [rays, 3])
// Model: NeRF | 1191688 parameters
#include <cmath>
#include <string>
#include <vector>

#include "hetsynth/hetsynth.h"
using namespace hetsynth;

struct Size {
  int64_t width, layers, coarse, fine, batch;
};
constexpr double near_end = 2, far_end = 6;

/// The numbers themselves, and their sines and cosines at so many frequencies, each twice the one before.
Tensor encoded(Tensor x, int octaves) {
  std::vector<Tensor> parts = {x};
  for (int i = 0; i < octaves; ++i) {
    Tensor turned = x * std::ldexp(1.0, i);
    parts.push_back(sin(turned));
    parts.push_back(cos(turned));
  }
  return concat(parts, -1);
}

Tensor linear(const std::string& name, Tensor x, int64_t outputs) {
  Tensor weight = parameter(name + ".weight", {x.size(-1), outputs}, uniform(std::sqrt(6.0 / double(x.size(-1)))));
  return matmul(x, weight) + parameter(name + ".bias", {outputs}, zeros());
}

struct Field {
  Tensor colour, density;  // [rays, points, 3], [rays, points]
};

Field field(const std::string& name, Tensor points, Tensor views, const Size& s) {
  Tensor place = encoded(points, 10), x = place;
  for (int64_t i = 0; i < s.layers; ++i) {
    x = relu(linear(name + ".layer" + std::to_string(i), x, s.width));
    if (i == s.layers / 2) x = concat({place, x}, -1);
  }
  Tensor density = reshape(relu(linear(name + ".density", x, 1)), {points.size(0), points.size(1)});
  Tensor features = concat({linear(name + ".features", x, s.width), views}, -1);
  Tensor hidden = relu(linear(name + ".views", features, s.width / 2));
  return {sigmoid(linear(name + ".colour", hidden, 3)), density};
}

struct Seen {
  Tensor colour, weights;  // [rays, 3], and how much of it every point of a ray gives [rays, points]
};

/// Volume rendering: what reaches the eye of a point is what the points before it let through.
Seen look(const std::string& name, Tensor origins, Tensor directions, Tensor depths, const Size& s) {
  int64_t rays = depths.size(0), count = depths.size(1);
  Tensor along = reshape(depths, {rays, count, 1}) * reshape(directions, {rays, 1, 3});
  Tensor points = reshape(origins, {rays, 1, 3}) + along;
  Tensor unit = directions * rsqrt(sum(square(directions), -1, true) + 1e-12);
  Tensor views = encoded(unit, 4);
  Tensor each = broadcast(reshape(views, {rays, 1, views.size(-1)}), {rays, count, views.size(-1)});
  auto [colour, density] = field(name, points, each, s);
  Tensor gap = concat({slice(depths, 1, 1, count) - slice(depths, 1, 0, count - 1), full({rays, 1}, 1e3)}, 1);
  Tensor thickness = density * gap;
  Tensor weights = exp(-cumsum(thickness, 1, true)) * (1 - exp(-thickness));
  return {einsum("rp,rpc->rc", weights, colour), weights};
}

/// Depths drawn where the coarse weights are: each of so many draws falls between two of the `inner` depths, by the
/// inverse of the running sum of the weights.
Tensor drawn(Tensor middles, Tensor inner, int64_t draws) {
  int64_t rays = inner.size(0), bins = inner.size(1);
  Tensor share = inner + 1e-5;
  share = share / sum(share, 1, true);
  Tensor upto = cumsum(share, 1), before = upto - share;
  Tensor u = random_uniform({rays, draws});
  Tensor passed = reshape(u, {rays, draws, 1}) >= reshape(upto, {rays, 1, bins});
  Tensor bin = to_int(minimum(sum(passed, 2), double(bins - 1)));
  auto at = [&](Tensor table) { return gather(table, 1, bin); };
  Tensor left = at(slice(middles, 1, 0, bins)), right = at(slice(middles, 1, 1, bins + 1));
  return left + (right - left) * clamp((u - at(before)) / at(share), 0, 1);
}

void model() {
  Size s = choice<Size>("size", "published", {{"published", {256, 8, 64, 128, 4096}}, {"tiny", {16, 3, 6, 5, 7}}},
                        "published size, or tiny");
  int64_t rays = option("batch", s.batch, "rays per step");
  double lr = option("lr", 5e-4, "learning rate");

  Tensor origins = input("origins", {rays, 3}, f32);
  Tensor directions = input("directions", {rays, 3}, f32);
  Tensor colours = input("colours", {rays, 3}, f32, {.lowest = 0, .highest = 1});

  Tensor cell = to_float(positions({rays, s.coarse}, 1)) + random_uniform({rays, s.coarse});
  Tensor depths = near_end + cell * ((far_end - near_end) / double(s.coarse));
  Seen coarse = look("coarse", origins, directions, depths, s);

  Tensor middles = 0.5 * (slice(depths, 1, 1, s.coarse) + slice(depths, 1, 0, s.coarse - 1));
  Tensor inner = stop_gradient(slice(coarse.weights, 1, 1, s.coarse - 1));
  Tensor finer = drawn(middles, inner, s.fine);
  auto [both, order] = sort(concat({depths, finer}, 1), 1);
  Seen fine = look("fine", origins, directions, stop_gradient(both), s);

  Tensor error = mean_squared_error(fine.colour, colours);
  output("colour", fine.colour);
  metric("psnr", log(error) * (-10 / std::log(10.0)));
  minimize(error + mean_squared_error(coarse.colour, colours), Adam{.learning_rate = lr});
}
