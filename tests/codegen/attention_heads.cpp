#include "attention_heads.h"

#include <fmt/format.h>

#include <ostream>

#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"

namespace hetsynth::testing_support {

std::string text(const Heads& h) {
  return fmt::format("{}_queries_{}_keys_{}_features_{}_values{}{}{}_group_{}{}", h.queries, h.keys, h.features,
                     h.values, h.causal ? "_causal" : "", h.bias ? "_bias" : "", h.dropout > 0 ? "_dropped" : "",
                     h.group, h.precision == "bf16" ? "" : "_" + h.precision);
}
void PrintTo(const Heads& heads, std::ostream* out) { *out << text(heads); }

Program program_of(const Heads& h) {
  Trace trace("heads.cpp");
  run_builder(trace, [&] {
    mixed_precision(h.precision);
    Tensor q = parameter("q", {h.batch, h.queries, 2 * h.group, h.features}, normal(1));
    Tensor k = parameter("k", {h.batch, h.keys, 2, h.features}, normal(1));
    Tensor v = parameter("v", {h.batch, h.keys, 2, h.values}, normal(1));
    AttentionOptions options{.causal = h.causal, .dropout = h.dropout};
    if (h.bias) options.bias = stop_gradient(parameter("bias", {2 * h.group, h.queries, h.keys}, normal(1)));
    Tensor mixed = attention(q, k, v, options);
    Tensor fixed = stop_gradient(parameter("fixed", {h.batch, h.queries, 2 * h.group, h.values}, normal(1)));
    minimize(sum(tanh(mixed) * fixed), SGD{.learning_rate = 0.5, .momentum = 0});
  });
  return differentiate(trace);
}

std::vector<Heads> heads_for_tensor_cores() {
  return {{},
          {.queries = 128, .keys = 128, .features = 32, .values = 32, .causal = true},
          {.queries = 150, .keys = 150, .features = 64, .values = 64, .causal = true},
          {.queries = 20, .keys = 70, .features = 128, .values = 128},
          {.queries = 70, .keys = 20, .features = 96, .values = 48},
          {.queries = 33, .keys = 33, .features = 80, .values = 112, .causal = true},
          {.queries = 130, .keys = 50, .bias = true, .dropout = 0.2},
          {.queries = 64, .keys = 64, .causal = true, .dropout = 0.25, .group = 3, .batch = 2},
          {.precision = "fp16"},
          {.queries = 150, .keys = 150, .features = 64, .values = 64, .causal = true, .precision = "fp16"},
          {.queries = 20, .keys = 70, .features = 128, .values = 96, .precision = "fp16"},
          {.queries = 64, .keys = 64, .causal = true, .dropout = 0.25, .group = 3, .batch = 2, .precision = "fp16"}};
}

double attention_bound(const Heads& heads) {
  return heads.precision == "fp16" ? bf16_attention_bound / 4 : bf16_attention_bound;
}

}  // namespace hetsynth::testing_support
