// Training in float64, by the reference interpreter and as a plan's devices would: where losses that part in float32
// show whether the plan is wrong or rounding is amplified.
#pragma once
#include <functional>

#include "dsl/ir/interpreter.h"
#include "dsl/spmd/spmd.h"

namespace hetsynth::testing {

/// One run: what parameters and states have become, and the loss of every step.
struct Float64Run {
  Bindings leaves;
  std::vector<double> losses = {};
};

struct Float64Runs {
  Float64Run reference, plan;
  Float64Run moved;  ///< the reference from parameters that differ by 2^-24 of themselves, the last bit of float32
};

/// Runs all three on synthetic data; calls `after` with what there is after every step.
Float64Runs run_in_float64(const Program& program, const SpmdProgram& plan, int64_t steps,
                           const std::function<void(const Float64Runs&)>& after = {});

}  // namespace hetsynth::testing
