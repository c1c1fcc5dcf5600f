// How long generation takes, by the length of a program: chains of elementwise operators, which one loop nest could
// hold all of, and stacks of layers. Seconds of one core, and how they grow from one length to the next: 2 is linear.
//   bench_generate_time
#include <fmt/format.h>

#include <ctime>
#include <functional>

#include "codegen/interface/device_program.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "synth/baselines/baseline_plans.h"

namespace {

using namespace hetsynth;

void chain(int64_t length) {
  auto [samples, labels] = synthetic_batch(16, 8, 4);
  Tensor h = matmul(samples, parameter("w", {8, 4}, normal(0.3)));
  for (int64_t i = 0; i < length; ++i) h = tanh(h * 0.9);
  minimize(cross_entropy(h, labels), SGD{});
}

void layers(int64_t length) {
  auto [samples, labels] = synthetic_batch(16, 8, 4);
  Tensor h = samples;
  for (int64_t i = 0; i < length; ++i) h = h + relu(matmul(h, parameter(fmt::format("w{}", i), {8, 8}, normal(0.1))));
  minimize(cross_entropy(matmul(h, parameter("out", {8, 4}, normal(0.3))), labels), SGD{});
}

double seconds_to_generate(const std::function<void(int64_t)>& model, int64_t length, size_t* operators) {
  Trace trace("model.cpp");
  run_builder(trace, [&] { model(length); });
  const Program program = differentiate(trace);
  *operators = program.nodes.size();
  const Cluster cluster = local_cluster(2);
  const Plan plan = data_parallel_plan(program, cluster);
  const std::clock_t start = std::clock();
  (void)generate(program, plan.program, cluster, 1);
  return double(std::clock() - start) / CLOCKS_PER_SEC;
}

void report(const char* name, const std::function<void(int64_t)>& model) {
  double before = 0;
  for (int64_t length : {250, 500, 1000, 2000, 4000}) {
    size_t operators = 0;
    const double seconds = seconds_to_generate(model, length, &operators);
    fmt::print("{:<8} {:>7} {:>10} {:>9.3f} {:>8}\n", name, length, operators, seconds,
               before > 0 ? fmt::format("{:.2f}", seconds / before) : "");
    std::fflush(stdout);
    before = seconds;
  }
}

}  // namespace

int main() {
  fmt::print("{:<8} {:>7} {:>10} {:>9} {:>8}\n", "program", "length", "operators", "seconds", "growth");
  report("chain", chain);
  report("layers", layers);
}
