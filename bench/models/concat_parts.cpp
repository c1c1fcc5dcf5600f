// Many tensors side by side, of which each is computed: how proofs grow with the parts of a join (docs/limits.md).
#include "hetsynth/hetsynth.h"
using namespace hetsynth;

void model() {
  const auto count = option("parts", int64_t(250), "tensors that are joined");
  auto [samples, labels] = synthetic_batch(8, 4, 3);
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < count; ++i) parts.push_back(samples * parameter("p" + std::to_string(i), {4}, ones()));
  Tensor logits = matmul(concat(parts, 1), parameter("w", {4 * count, 3}, normal(0.1)));
  minimize(cross_entropy(logits, labels), SGD{});
}
