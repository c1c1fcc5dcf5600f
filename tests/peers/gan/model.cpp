// Two networks that are trained against each other, on noise that the data have, so that PyTorch can be given the same.
#include "hetsynth/hetsynth.h"
using namespace hetsynth;

void model() {
  int64_t d_steps = option("d_steps", 0, "steps of the discriminator before those of the generator; 0: in every step");
  int64_t g_steps = option("g_steps", 0, "steps of the generator");
  const int64_t batch = 8, features = 4, hidden = 16;
  Tensor real = input("real", {batch, features}, f32), noise = input("noise", {batch, 3}, f32);
  Tensor g1 = parameter("g.1", {3, hidden}, normal(0.5)), g2 = parameter("g.2", {hidden, features}, normal(0.5));
  Tensor d1 = parameter("d.1", {features, hidden}, normal(0.5)), d2 = parameter("d.2", {hidden, 1}, normal(0.5));
  Tensor made = matmul(tanh(matmul(noise, g1)), g2);
  const auto judge = [&](Tensor of) { return reshape(matmul(leaky_relu(matmul(of, d1), 0.2), d2), {batch}); };
  Tensor of_real = judge(real), of_made = judge(made), yes = full({batch}, 1.0), no = full({batch}, 0.0);
  minimize(binary_cross_entropy_with_logits(of_real, yes) + binary_cross_entropy_with_logits(of_made, no),
           Adam{.learning_rate = 0.01, .beta1 = 0.5},
           {.name = "discriminator", .parameters = "d\\.", .steps = d_steps});
  minimize(binary_cross_entropy_with_logits(of_made, yes), Adam{.learning_rate = 0.02, .beta1 = 0.5},
           {.name = "generator", .parameters = "g\\.", .steps = g_steps});
}
