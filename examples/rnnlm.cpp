// A recurrent language model: embedding, two LSTM layers over 40 steps, softmax (Zaremba et al. 2014), at the
// size on which FlexFlow is measured (Jia et al. 2019): 2048 hidden features, the 10,000 words of the Penn Treebank.
//   hetsynth run rnnlm.cpp --set size=tiny
//   hetsynth run rnnlm.cpp --data tokens.npy
// Model: RNNLM
#include "hetsynth/hetsynth.h"
using namespace hetsynth;

void model() {
  bool tiny = choice<bool>("size", "published", {{"published", false}, {"tiny", true}});
  int64_t layers = option("layers", 2, "LSTM layers");
  int64_t hidden = option("hidden", tiny ? 32 : 2048, "features per word and per layer");
  int64_t words = option("words", tiny ? 100 : 10000, "vocabulary");
  int64_t steps = option("steps_unrolled", tiny ? 8 : 40, "words per sample");
  int64_t batch = option("batch", tiny ? 12 : 64, "samples per step");
  double keep_out = option("dropout", 0.0, "share of features dropped between layers");
  double lr = option("lr", tiny ? 1e-2 : 1e-3, "learning rate");

  auto [tokens, targets] = token_batch(batch, steps, words);
  Tensor table = parameter("embedding", {words, hidden}, uniform(0.1));
  Tensor x = embedding(table, tokens);
  for (int64_t i = 0; i < layers; ++i) {
    std::string name = "lstm" + std::to_string(i);
    x = dropout(x, keep_out);
    x = lstm(x, lstm_weights(name, hidden, hidden));
  }
  x = dropout(x, keep_out);
  Tensor weight = parameter("softmax.weight", {hidden, words}, uniform(0.1));
  Tensor bias = parameter("softmax.bias", {words}, zeros());
  Tensor logits = matmul(x, weight) + bias;
  output("logits", logits);
  minimize(cross_entropy(logits, targets), AdamW{.learning_rate = lr, .clip_norm = 5});
}
