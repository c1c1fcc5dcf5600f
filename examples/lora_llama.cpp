// A Llama (llama.cpp) with low-rank adapters (LoRA, Hu et al. 2021): its weights stay as they are, and beside the
// projections of attention, or all of a layer's, a product of two small matrices is trained, alpha / rank A B.
//   hetsynth run lora_llama.cpp --init-from llama/ --map weights/llama.toml --data tokens.npy --checkpoint tuned.st
//   hetsynth export tuned.st --map weights/llama-lora.toml -o adapter_model.safetensors
//   hetsynth export tuned.st --map weights/llama.toml --merge weights/llama-lora.toml -o model.safetensors
// Model: TinyLlama 1.1B LoRA | 1102301184 parameters
// Model: Llama 3 8B LoRA | 8037076992 parameters | size=8B
#include <cmath>
#include <set>

#include "hetsynth/hetsynth.h"
using namespace hetsynth;

struct Size {
  int64_t layers, heads, key_heads, width, hidden, vocabulary, length, batch;
  double base;
};

struct Adapters {
  std::set<std::string> parts;  ///< the projections that have one
  int64_t rank;
  double dropout;
  Tensor scale;  ///< alpha / rank: a state, so that checkpoints have what is needed to merge
};

/// What the base model has, and nothing trains.
Tensor frozen(const std::string& name, const Dims& shape, Init init) {
  return parameter(name, shape, init, {.trainable = false});
}

Tensor norm(const std::string& name, Tensor x) { return rms_norm(x, frozen(name, {x.size(-1)}, ones()), 1e-5); }

/// A side of a projection: a letter for each dimension, and its extents.
struct Side {
  std::string names;
  Dims extents;
};

/// x W, and beside it scale x A B. A starts as a layer of its inputs does in PyTorch and peft, B at zero, so that the
/// first step begins with the base model.
Tensor project(const std::string& layer, const std::string& part, Tensor x, const Side& from, const Side& to,
               const Adapters& adapters) {
  std::string name = layer + "." + part;
  Dims shape = from.extents, a_shape = from.extents, b_shape = {adapters.rank};
  shape.insert(shape.end(), to.extents.begin(), to.extents.end());
  a_shape.push_back(adapters.rank);
  b_shape.insert(b_shape.end(), to.extents.begin(), to.extents.end());
  Tensor weight = frozen(name, shape, normal(0.02));
  Tensor y = einsum("bt" + from.names + "," + from.names + to.names + "->bt" + to.names, x, weight);
  if (!adapters.parts.contains(part)) return y;
  double inputs = 1;
  for (int64_t extent : from.extents) inputs *= double(extent);
  Tensor a = parameter(name + ".lora_a", a_shape, uniform(1 / std::sqrt(inputs)));
  Tensor b = parameter(name + ".lora_b", b_shape, zeros());
  Tensor seen = dropout(x, adapters.dropout);
  Tensor low = einsum("bt" + from.names + "," + from.names + "r->btr", seen, a) * adapters.scale;
  return y + einsum("btr,r" + to.names + "->bt" + to.names, low, b);
}

/// Queries in groups: every group of heads shares the key and value of one head.
Tensor attention(const std::string& name, Tensor x, const Size& s, const Adapters& adapters) {
  int64_t head = s.width / s.heads, group = s.heads / s.key_heads;
  Side features{"c", {s.width}}, heads{"hd", {s.heads, head}}, key_heads{"kd", {s.key_heads, head}};
  Tensor query = project(name, "query", x, features, heads, adapters);
  Tensor key = project(name, "key", x, features, key_heads, adapters);
  Tensor value = project(name, "value", x, features, key_heads, adapters);
  query = reshape(rotary(query, 1, s.base), {x.size(0), x.size(1), s.key_heads, group, head});
  key = rotary(key, 1, s.base);
  Tensor scores = causal_mask(einsum("btkgd,bskd->bkgts", query, key) * (1 / std::sqrt(double(head))));
  Tensor mixed = einsum("bkgts,bskd->btkgd", softmax(scores, -1), value);
  mixed = reshape(mixed, {x.size(0), x.size(1), s.heads, head});
  return project(name, "out", mixed, heads, features, adapters);
}

Tensor swiglu(const std::string& name, Tensor x, const Size& s, const Adapters& adapters) {
  Side features{"c", {s.width}}, hidden{"f", {s.hidden}};
  Tensor gate = silu(project(name, "gate", x, features, hidden, adapters));
  Tensor up = project(name, "up", x, features, hidden, adapters);
  return project(name, "down", gate * up, hidden, features, adapters);
}

void model() {
  Size s = choice<Size>("size", "1.1B",
                        {{"1.1B", {22, 32, 4, 2048, 5632, 32000, 2048, 16, 1e4}},
                         {"7B", {32, 32, 32, 4096, 11008, 32000, 2048, 16, 1e4}},
                         {"8B", {32, 32, 8, 4096, 14336, 128256, 2048, 16, 5e5}},
                         {"tiny", {2, 4, 2, 32, 48, 256, 16, 6, 1e4}}},
                        "published sizes, or tiny");
  int64_t batch = option("batch", s.batch, "sequences per step");
  int64_t length = option("length", s.length, "tokens of a sequence");
  int64_t rank = option("rank", 8, "columns of A and rows of B");
  double alpha = option("alpha", 16.0, "A B counts alpha / rank times");
  double lr = option("lr", 2e-4, "learning rate after warm-up");
  const std::string precision = option("precision", "f32", "bf16 or fp16: products with weights in that type");
  mixed_precision(precision, precision == "fp16" ? 1024 : 1);  // small gradients vanish in fp16
  using Parts = std::set<std::string>;
  Parts parts = choice<Parts>("adapters", "attention",
                              {{"query-value", {"query", "value"}},
                               {"attention", {"query", "key", "value", "out"}},
                               {"all", {"query", "key", "value", "out", "gate", "up", "down"}}},
                              "projections with an adapter: two of them as in the paper, attention's, or the MLP's too");
  Adapters adapters{parts, rank, option("lora_dropout", 0.0, "share of features that adapters do not see"),
                    state("lora.scale", {}, constant_init(alpha / double(rank)))};

  auto [tokens, targets] = token_batch(batch, length, s.vocabulary);
  Tensor x = embedding(frozen("tokens", {s.vocabulary, s.width}, normal(0.02)), tokens);
  for (int64_t i = 0; i < s.layers; ++i) {
    std::string layer = "layer" + std::to_string(i);
    x = checkpoint([&] {  // at these lengths activations take more memory than parameters
      Tensor mixed = x + attention(layer + ".attention", norm(layer + ".norm1", x), s, adapters);
      return mixed + swiglu(layer + ".mlp", norm(layer + ".norm2", mixed), s, adapters);
    });
  }
  Tensor logits = matmul(norm("norm", x), frozen("head", {s.width, s.vocabulary}, normal(0.02)));
  output("logits", logits);
  minimize(cross_entropy(logits, targets),
           AdamW{.learning_rate = lr, .weight_decay = 0.01, .warmup_steps = 10, .clip_norm = 1});
}
