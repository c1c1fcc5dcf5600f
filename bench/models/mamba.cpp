// A Mamba of 130 M parameters (Gu and Dao 2023, without its short convolution): 24 layers with a scan over time each, a
// program unlike those of examples/, to time planning with (docs/planner-parameters.md).
#include <cmath>

#include "hetsynth/hetsynth.h"
using namespace hetsynth;

Tensor weight(const std::string& name, const Dims& shape) { return parameter(name, shape, normal(0.02)); }
Tensor norm(const std::string& name, Tensor x) { return rms_norm(x, parameter(name, {x.size(-1)}, ones()), 1e-5); }

Tensor mamba(const std::string& name, Tensor x, int64_t states, int64_t rank) {
  int64_t width = x.size(-1), inner = 2 * width, b = x.size(0);
  Tensor u = silu(matmul(x, weight(name + ".in", {width, inner})));
  Tensor gate = silu(matmul(x, weight(name + ".gate", {width, inner})));
  Tensor dt =
      softplus(matmul(matmul(u, weight(name + ".dt_down", {inner, rank})), weight(name + ".dt", {rank, inner})) +
               parameter(name + ".dt_bias", {inner}, zeros()));
  Tensor B = matmul(u, weight(name + ".b", {inner, states})), C = matmul(u, weight(name + ".c", {inner, states}));
  Tensor A = exp(parameter(name + ".a", {inner, states}, normal(0.1)));
  Tensor h0 = full({b, inner, states}, 0.0);
  ScanResult r =
      scan({u, dt, B, C}, {h0}, [&](const std::vector<Tensor>& s, const std::vector<Tensor>& in) -> ScanStep {
        Tensor decay = exp(einsum("bi,is->bis", in[1], A) * -1.0);
        Tensor next = s[0] * decay + einsum("bi,bs->bis", in[0] * in[1], in[2]);
        return {{next}, einsum("bis,bs->bi", next, in[3])};
      });
  Tensor y = r.outputs + u * parameter(name + ".d", {inner}, ones());
  return matmul(y * gate, weight(name + ".out", {inner, width}));
}

void model() {
  int64_t layers = option("layers", 24, "layers"), width = option("width", 768, "features"),
          batch = option("batch", 64, "sequences per step"), length = option("length", 1024, "tokens per sequence");
  auto [tokens, targets] = token_batch(batch, length, 50280);
  Tensor table = weight("tokens", {50280, width});
  Tensor x = embedding(table, tokens);
  for (int64_t i = 0; i < layers; ++i) {
    std::string layer = "layer" + std::to_string(i);
    x = x + mamba(layer, norm(layer + ".norm", x), 16, 48);
  }
  minimize(cross_entropy(einsum("btc,vc->btv", norm("norm", x), table), targets), AdamW{.learning_rate = 4e-4});
}
