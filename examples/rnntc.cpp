// Recurrent text classification: embedding, four LSTM layers over 40 steps, softmax over the class of the
// whole text, at the size on which FlexFlow is measured (Jia et al. 2019): 1024 hidden features; movie reviews, two
// classes.
//   hetsynth run rnntc.cpp --set size=tiny
// Model: RNNTC
#include "hetsynth/hetsynth.h"
using namespace hetsynth;

void model() {
  bool tiny = choice<bool>("size", "published", {{"published", false}, {"tiny", true}});
  int64_t layers = option("layers", tiny ? 2 : 4, "LSTM layers");
  int64_t hidden = option("hidden", tiny ? 32 : 1024, "features per word and per layer");
  int64_t words = option("words", tiny ? 100 : 20000, "vocabulary");
  int64_t steps = option("steps_unrolled", tiny ? 8 : 40, "words per text");
  int64_t classes = option("classes", 2, "classes of texts");
  int64_t batch = option("batch", tiny ? 12 : 64, "texts per step");
  double lr = option("lr", tiny ? 1e-2 : 1e-3, "learning rate");

  auto [tokens, labels] = labelled_tokens(batch, steps, words, classes);
  Tensor table = parameter("embedding", {words, hidden}, uniform(0.1));
  Tensor x = embedding(table, tokens);
  for (int64_t i = 0; i < layers; ++i) {
    std::string name = "lstm" + std::to_string(i);
    x = lstm(x, lstm_weights(name, hidden, hidden));
  }
  Tensor last = reshape(slice(x, 1, steps - 1, steps), {batch, hidden});
  Tensor weight = parameter("softmax.weight", {hidden, classes}, uniform(0.1));
  Tensor bias = parameter("softmax.bias", {classes}, zeros());
  minimize(cross_entropy(matmul(last, weight) + bias, labels), AdamW{.learning_rate = lr, .clip_norm = 5});
}
