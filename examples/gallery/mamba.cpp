// Mamba (Gu and Dao 2023): a selective state space model. What a state keeps of the past, and what it takes of a token,
// depends on the token; the states go from step to step in a scan.
//   hetsynth run mamba.cpp --set size=tiny
// Model: Mamba 130M | 129135360 parameters
#include <cmath>

#include "hetsynth/hetsynth.h"
using namespace hetsynth;

struct Size {
  int64_t layers, width, states, window, rank, vocabulary, length, batch;
};

Tensor weight(const std::string& name, const Dims& shape) { return parameter(name, shape, normal(0.02)); }

Tensor norm(const std::string& name, Tensor x) { return rms_norm(x, parameter(name, {x.size(-1)}, ones()), 1e-5); }

/// Each feature of [batch, time, features] from its own last `window` steps.
Tensor causal_conv(const std::string& name, Tensor x, int64_t window) {
  int64_t features = x.size(2), length = x.size(1);
  Tensor filter = parameter(name + ".weight", {features, 1, window}, uniform(1 / std::sqrt(double(window))));
  Tensor bias = parameter(name + ".bias", {features}, zeros());
  Tensor mixed = conv1d(transpose(x, {0, 2, 1}), filter, {.padding = window - 1, .groups = features});
  return transpose(slice(mixed, 2, 0, length), {0, 2, 1}) + bias;
}

Tensor mixer(const std::string& name, Tensor x, const Size& s) {
  int64_t inner = 2 * s.width, b = x.size(0);
  Tensor u = silu(causal_conv(name + ".conv", matmul(x, weight(name + ".in", {s.width, inner})), s.window));
  Tensor gate = silu(matmul(x, weight(name + ".gate", {s.width, inner})));
  Tensor low = matmul(u, weight(name + ".dt_down", {inner, s.rank}));
  // softplus(-4.6) is 0.01, a step in the middle of those that the paper draws.
  Tensor step_bias = parameter(name + ".dt_bias", {inner}, constant_init(-4.6));
  Tensor step = softplus(matmul(low, weight(name + ".dt", {s.rank, inner})) + step_bias);
  Tensor into = matmul(u, weight(name + ".b", {inner, s.states}));
  Tensor out_of = matmul(u, weight(name + ".c", {inner, s.states}));
  Tensor decay = -exp(parameter(name + ".a_log", {inner, s.states}, uniform(1)));
  ScanResult r = scan({u, step, into, out_of}, {full({b, inner, s.states}, 0.0)},
                      [&](const std::vector<Tensor>& state, const std::vector<Tensor>& now) -> ScanStep {
                        Tensor kept = exp(einsum("bi,is->bis", now[1], decay));
                        Tensor next = state[0] * kept + einsum("bi,bs->bis", now[0] * now[1], now[2]);
                        return {{next}, einsum("bis,bs->bi", next, now[3])};
                      });
  Tensor y = r.outputs + u * parameter(name + ".d", {inner}, ones());
  return matmul(y * gate, weight(name + ".out", {inner, s.width}));
}

void model() {
  Size s = choice<Size>("size", "130M",
                        {{"130M", {24, 768, 16, 4, 48, 50280, 1024, 64}}, {"tiny", {2, 16, 4, 4, 2, 256, 12, 6}}},
                        "published size, or tiny");
  int64_t batch = option("batch", s.batch, "sequences per step");
  double lr = option("lr", 6e-4, "learning rate after warm-up");

  auto [tokens, targets] = token_batch(batch, s.length, s.vocabulary);
  Tensor table = weight("tokens", {s.vocabulary, s.width});
  Tensor x = embedding(table, tokens);
  for (int64_t i = 0; i < s.layers; ++i) {
    std::string layer = "layer" + std::to_string(i);
    x = x + mixer(layer, norm(layer + ".norm", x), s);
  }
  Tensor logits = einsum("btc,vc->btv", norm("norm", x), table);
  output("logits", logits);
  minimize(cross_entropy(logits, targets),
           AdamW{.learning_rate = lr, .beta2 = 0.95, .weight_decay = 0.1, .warmup_steps = 10, .clip_norm = 1});
}
