// A hand-built training step and a plan for it, small enough to read, for the tests of the plan file.
#pragma once
#include "dsl/spmd/plan.h"

namespace hetsynth::testing {

/// x f32[6,4], w f32[4,8] (parameter), y = x w, loss = sum of y, w2 = w + w; w takes w2.
Program plan_test_program();

/// Two cpu devices, "fast" and "slow".
Cluster plan_test_cluster();

/// Rows of x cut 4 : 2; y and the loss computed on both, the loss all-reduced.
Plan plan_test_plan(const Program& reference);

/// The same with a detour of y through every kind of instruction.
Plan plan_test_detour(const Program& reference);
/// The plan with an exchange of its input's rows, which nothing reads.
Plan plan_test_halo(const Program& reference);

}  // namespace hetsynth::testing
