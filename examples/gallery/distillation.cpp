// Distillation of BERT (DistilBERT, Sanh et al. 2019): a student of six layers learns masked words from the text, from
// what its teacher of twelve layers makes of it, and from where the teacher's features point. The teacher is frozen: it
// costs its forward pass, and comes from a checkpoint.
//   hetsynth run distillation.cpp --set size=tiny
// Model: DistilBERT | 66985530 parameters without teacher.
#include <cmath>
#include <string>

#include "hetsynth/hetsynth.h"
using namespace hetsynth;

struct Size {
  int64_t student_layers, teacher_layers, heads, width, vocabulary, positions, length, batch;
};

/// Parameters of the student, or of the teacher, which are not trained.
struct Weights {
  std::string prefix;
  bool trainable;
  Tensor operator()(const std::string& name, const Dims& shape, Init init) const {
    return parameter(prefix + name, shape, init, {.trainable = trainable});
  }
};

Tensor norm(const Weights& w, const std::string& name, Tensor x) {
  return layernorm(x, w(name + ".gain", {x.size(-1)}, ones()), w(name + ".bias", {x.size(-1)}, zeros()), 1e-12);
}

Tensor linear(const Weights& w, const std::string& name, Tensor x, int64_t outputs) {
  return matmul(x, w(name + ".weight", {x.size(-1), outputs}, normal(0.02))) + w(name + ".bias", {outputs}, zeros());
}

/// Post-norm blocks of BERT; `hidden` of a text and the logits over its words.
struct Read {
  Tensor hidden, logits;
};
Read read(const Weights& w, Tensor tokens, int64_t layers, const Size& s, double p) {
  int64_t head = s.width / s.heads;
  Tensor table = w("tokens", {s.vocabulary, s.width}, normal(0.02));
  Tensor places = slice(w("positions", {s.positions, s.width}, normal(0.02)), 0, 0, s.length);
  Tensor x = dropout(norm(w, "norm", embedding(table, tokens) + places), p);
  for (int64_t i = 0; i < layers; ++i) {
    std::string name = "layer" + std::to_string(i);
    auto project = [&](const std::string& part) {
      Tensor weight = w(name + part + ".weight", {s.width, s.heads, head}, normal(0.02));
      return einsum("btc,chd->bthd", x, weight) + w(name + part + ".bias", {s.heads, head}, zeros());
    };
    Tensor mixed = attention(project(".query"), project(".key"), project(".value"), {.dropout = p});
    Tensor weight = w(name + ".out.weight", {s.heads, head, s.width}, normal(0.02));
    Tensor out = einsum("bthd,hdc->btc", mixed, weight) + w(name + ".out.bias", {s.width}, zeros());
    x = norm(w, name + ".norm1", x + dropout(out, p));
    Tensor hidden = gelu_erf(linear(w, name + ".up", x, 4 * s.width));
    x = norm(w, name + ".norm2", x + dropout(linear(w, name + ".down", hidden, s.width), p));
  }
  Tensor said = norm(w, "head.norm", gelu_erf(linear(w, "head", x, s.width)));
  return {x, einsum("btc,vc->btv", said, table) + w("head.words", {s.vocabulary}, zeros())};
}

Tensor unit(Tensor x) { return x * rsqrt(sum(square(x), -1, true) + 1e-12); }

void model() {
  Size s = choice<Size>("size", "base",
                        {{"base", {6, 12, 12, 768, 30522, 512, 512, 16}}, {"tiny", {1, 2, 2, 16, 64, 12, 10, 6}}},
                        "published size, or tiny");
  int64_t batch = option("batch", s.batch, "texts per step");
  double heat = option("temperature", 2.0, "logits are divided by it before they are compared");
  double lr = option("lr", 5e-4, "learning rate after warm-up");

  Tensor tokens = input("tokens", {batch, s.length}, i32, {.classes = s.vocabulary});
  Tensor masked = input("masked", {batch, s.length}, i32, {.classes = s.vocabulary, .ignored = -100});
  Read student = read({"", true}, tokens, s.student_layers, s, 0.1);
  Read teacher = read({"teacher.", false}, tokens, s.teacher_layers, s, 0);

  Tensor wanted = softmax(teacher.logits / heat, -1);
  Tensor apart = sum(wanted * (log_softmax(teacher.logits / heat, -1) - log_softmax(student.logits / heat, -1)), -1);
  Tensor soft = mean(apart) * (heat * heat);
  Tensor words = cross_entropy(student.logits, masked, {.ignored_label = -100});
  Tensor turned = mean(1 - sum(unit(student.hidden) * unit(teacher.hidden), -1));
  metric("soft", soft);
  metric("turned", turned);
  minimize(5 * soft + 2 * words + turned, AdamW{.learning_rate = lr, .warmup_steps = 10, .clip_norm = 5});
}
