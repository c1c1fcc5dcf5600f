// How far the losses of a model's tiny size part in float64: between one device and the plan of three uneven ones, and
// between two runs of one device whose parameters differ in the last bit of float32. A wrong plan parts from the first
// step on; a model that amplifies rounding parts from itself.
//   bench_rounding NAME [STEPS]
// The name as in docs/models.md. The interpreter takes seconds to minutes a step.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "dsl/base/error.h"
#include "synth/planner/synthesize.h"
#include "tests/support/zoo/float64_runs.h"
#include "tests/support/zoo/walk.h"

namespace {

using namespace hetsynth;
using namespace hetsynth::testing;

void report(const ListedModel& model, int64_t steps) {
  const TracedModel tiny = trace_model(model, model.tiny);
  const Plan plan = synthesize(tiny.program, three_uneven_devices(), {.time_limit_seconds = 5, .progress = {}});
  fmt::print("step  loss          plan     moved by 2^-24 (relative)\n");
  run_in_float64(tiny.program, plan.program, steps, [&](const Float64Runs& runs) {
    const double loss = runs.reference.losses.back();
    const auto apart = [&](const Float64Run& run) { return std::fabs(run.losses.back() - loss) / std::fabs(loss); };
    fmt::print("{:4}  {:.8f}  {:8.1e}  {:8.1e}\n", runs.reference.losses.size() - 1, loss, apart(runs.plan),
               apart(runs.moved));
    std::fflush(stdout);
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: bench_rounding NAME [STEPS]\n");
    return 2;
  }
  try {
    report(listed_models({argv[1]}).front(), argc > 2 ? std::atoll(argv[2]) : 20);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
  }
  return 1;
}
