// Neural machine translation: an LSTM encoder, an LSTM decoder that begins with its states, and attention of the
// decoder to the encoder (Luong et al. 2015, "general" score, global), at the size on which FlexFlow is measured (its
// nmt/nmt.cc): two layers on each side, 20 + 20 steps, 2048 features, 20,480 words.
//   hetsynth run nmt.cpp --set size=tiny
// Model: NMT
#include "hetsynth/hetsynth.h"
using namespace hetsynth;

void model() {
  bool tiny = choice<bool>("size", "published", {{"published", false}, {"tiny", true}});
  int64_t layers = option("layers", 2, "LSTM layers of encoder and decoder");
  int64_t hidden = option("hidden", tiny ? 32 : 2048, "features per word and per layer");
  int64_t words = option("words", tiny ? 60 : 20480, "vocabulary of either language");
  int64_t steps = option("steps_unrolled", tiny ? 6 : 20, "words per sentence");
  int64_t batch = option("batch", tiny ? 12 : 64, "sentences per step");
  double lr = option("lr", tiny ? 1e-2 : 1e-3, "learning rate");

  auto [source, input, targets] = translation_batch(batch, steps, steps, words, words);
  Tensor encoded = embedding(parameter("encoder.embedding", {words, hidden}, uniform(0.1)), source);
  Tensor decoded = embedding(parameter("decoder.embedding", {words, hidden}, uniform(0.1)), input);
  for (int64_t i = 0; i < layers; ++i) {
    std::string layer = ".lstm" + std::to_string(i);
    LstmStates states = lstm_states(encoded, lstm_weights("encoder" + layer, hidden, hidden));
    encoded = states.sequence;
    decoded = lstm(decoded, lstm_weights("decoder" + layer, hidden, hidden), states.last);
  }

  Tensor score_weight = parameter("attention.score", {hidden, hidden}, uniform(0.1));
  Tensor query = matmul(decoded, score_weight);
  Tensor scores = softmax(einsum("bth,bsh->bts", query, encoded), -1);
  Tensor context = einsum("bts,bsh->bth", scores, encoded);
  Tensor from_context = parameter("attention.context", {hidden, hidden}, uniform(0.1));
  Tensor from_state = parameter("attention.state", {hidden, hidden}, uniform(0.1));
  Tensor attended = tanh(matmul(context, from_context) + matmul(decoded, from_state));
  Tensor logits = matmul(attended, parameter("softmax.weight", {hidden, words}, uniform(0.1)));
  minimize(cross_entropy(logits, targets), AdamW{.learning_rate = lr, .clip_norm = 5});
}
