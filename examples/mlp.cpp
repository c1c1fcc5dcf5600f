// A byte n-gram model (Bengio et al. 2003): the next byte of a text from the `context` bytes before it.
//   hetsynth run mlp.cpp --set context=12
#include "hetsynth/hetsynth.h"
using namespace hetsynth;

void model() {
  int64_t context = option("context", 8, "bytes that are seen");
  int64_t width = option("width", 32, "features per byte");
  int64_t hidden = option("hidden", 256, "units of the hidden layer");
  int64_t batch = option("batch", 256, "samples per step");
  double lr = option("lr", 3e-3, "learning rate");

  auto [bytes, next] = text_next_byte(batch, context);
  Tensor table = parameter("table", {256, width}, normal(0.1));
  Tensor x = reshape(embedding(table, bytes), {batch, context * width});
  Tensor w1 = parameter("w1", {context * width, hidden}, normal(0.06));
  Tensor b1 = parameter("b1", {hidden}, zeros());
  Tensor h = tanh(matmul(x, w1) + b1);
  Tensor w2 = parameter("w2", {hidden, 256}, normal(0.06));
  Tensor b2 = parameter("b2", {256}, zeros());
  Tensor logits = matmul(h, w2) + b2;
  output("logits", logits);
  minimize(cross_entropy(logits, next), AdamW{.learning_rate = lr});
}
