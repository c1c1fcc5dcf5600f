// Training inside of a program of one's own: the model is one of its functions, and its arrays are the data.
//   train_spirals [STEPS [CLUSTER.toml [CHECKPOINT]]]
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "hetsynth/api.h"
#include "hetsynth/hetsynth.h"

using namespace hetsynth;

/// Points of three spirals, and a network that tells on which of them a point lies.
void spirals() {
  const int64_t batch = option("batch", 256, "points per step");
  Tensor points = input("points", {batch, 2}, f32);
  Tensor arms = input("arms", {batch}, i32, {.classes = 3});
  Tensor h = points;
  int64_t width = 2;
  for (int layer = 0; layer < 3; ++layer) {
    const std::string number = std::to_string(layer);
    h = tanh(matmul(h, parameter("w" + number, {width, 64}, normal(2 / std::sqrt(double(width + 64))))) +
             parameter("b" + number, {64}, zeros()));
    width = 64;
  }
  Tensor logits = matmul(h, parameter("out", {64, 3}, normal(0.1)));
  output("logits", logits);
  minimize(cross_entropy(logits, arms), AdamW{.learning_rate = 3e-3});
}

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::atoll(argv[1]) : 300;
  if (steps < 1) {
    std::fprintf(stderr, "usage: train_spirals [STEPS [CLUSTER [CHECKPOINT]]], at least one step, found %s\n", argv[1]);
    return 2;
  }
  try {
    const api::Model model = api::Model::from_function(spirals, {{"batch", "192"}}, "spirals");
    const api::Cluster cluster = argc > 2 ? api::Cluster::from_file(argv[2]) : api::Cluster::this_machine(2);
    const api::Plan plan = api::plan(model, cluster);
    std::printf("%s", plan.text().c_str());

    // The plan is proved before it runs: nothing comes of one that is not.
    api::Training training(plan, {.seed = 7});
    std::mt19937 random(42);
    std::vector<float> points(192 * 2);
    std::vector<int32_t> arms(192);
    for (int64_t step = 0; step < steps; ++step) {
      for (size_t i = 0; i < arms.size(); ++i) {
        arms[i] = int32_t(random() % 3);
        const double along = std::uniform_real_distribution<>(0.1, 1)(random);
        const double angle = 5 * along + arms[i] * 2.0944 + std::normal_distribution<>(0, 0.1)(random);
        points[2 * i] = float(along * std::cos(angle));
        points[2 * i + 1] = float(along * std::sin(angle));
      }
      api::Batch batch;
      batch.set("points", points);
      batch.set("arms", arms);
      const api::StepResult result = training.step(batch);
      if (step % 50 == 0 || step == steps - 1) std::printf("step %lld  loss %.4f\n", (long long)step, result.loss);
    }

    // What the network says of the last batch, before the last update.
    const api::TensorValues logits = training.tensor("logits");
    int right = 0;
    for (size_t i = 0; i < arms.size(); ++i) {
      const float* scores = &logits.floats[3 * i];
      const int best = scores[0] > scores[1] ? (scores[0] > scores[2] ? 0 : 2) : (scores[1] > scores[2] ? 1 : 2);
      right += best == arms[i];
    }
    std::printf("right: %d of %zu\n", right, arms.size());
    if (argc > 3) training.save(argv[3]);
  } catch (const api::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.code();
  }
}
