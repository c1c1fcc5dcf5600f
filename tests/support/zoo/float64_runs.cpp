#include "tests/support/zoo/float64_runs.h"

#include <cmath>

#include "runtime/data/batch_source.h"
#include "verify/refute/concrete.h"

namespace hetsynth::testing {
namespace {

constexpr uint64_t seed = 5;

void take_step(Float64Run& run, const Bindings& batch, const std::function<StepResult(const Bindings&)>& step) {
  for (const auto& [node, array] : batch) run.leaves[node] = array;
  StepResult result = step(run.leaves);
  run.leaves = std::move(result.leaves);
  run.losses.push_back(result.loss);
}

}  // namespace

Float64Runs run_in_float64(const Program& program, const SpmdProgram& plan, int64_t steps,
                           const std::function<void(const Float64Runs&)>& after) {
  const auto data = open_data(program, {"", seed});
  const Bindings start = initial_values(program, seed);
  Float64Runs runs{{start}, {start}, {start}};
  for (auto& [node, array] : runs.moved.leaves)
    if (program[node].kind == NodeKind::parameter)
      for (size_t i = 0; i < array.values.size(); ++i) array.values[i] *= 1 + (i % 2 ? 1 : -1) * std::ldexp(1, -24);
  for (int64_t step = 0; step < steps; ++step) {
    const Bindings batch = whole_batch(program, *data, step);
    const EvaluationContext context{seed, step};
    const auto reference = [&](const Bindings& leaves) { return run_reference_step(program, leaves, context); };
    take_step(runs.reference, batch, reference);
    take_step(runs.moved, batch, reference);
    take_step(runs.plan, batch, [&](const Bindings& leaves) { return run_spmd_step(program, plan, leaves, context); });
    if (after) after(runs);
  }
  return runs;
}

}  // namespace hetsynth::testing
