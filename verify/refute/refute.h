// Counterexamples: small concrete instances on which the plan and the reference program differ.
#pragma once
#include <optional>
#include <string>

#include "dsl/spmd/spmd.h"
#include "verify/refute/counterexample.h"
#include "verify/solver/solver.h"

namespace hetsynth {

struct Refutation {
  std::optional<Counterexample> counterexample;  ///< none: all instances agree, or none could be evaluated in time
  /// Whether it counts against this very plan. A plan that is right at its own sizes and boundaries, but not at others,
  /// is not refuted.
  bool conclusive = false;
};

/// Tries the plan at its own sizes where that is cheap, then shrunken instances with uneven and empty shares. What loss
/// and updates show goes before what the plan's words on its values show. Deterministic in `seed` but for the deadline.
/// Expects a plan without flaws (verify/rules/form.h).
Refutation find_counterexample(const Program& reference, const SpmdProgram& program, smt::Clock::time_point deadline,
                               uint64_t seed = 0);

/// What executing a proved plan at small instances showed.
struct ProofTrial {
  int instances = 0;                         ///< executed, and equal to the reference
  std::optional<Counterexample> difference;  ///< the proof and the execution contradict each other
  std::string left_out;                      ///< why fewer instances were executed than there should be; empty if none
};

/// Executes a plan that was proved at three small random instances: other sizes, other tables of the same form (one
/// with empty shares), other values. Loss, new contents and every value must be the reference's. A difference counts if
/// it is there for other values too: comparisons of numbers that are equal but for rounding may come out either way.
/// Expects a plan without flaws (verify/rules/form.h).
ProofTrial try_proved(const Program& reference, const SpmdProgram& program, smt::Clock::time_point deadline,
                      uint64_t seed = 0);

}  // namespace hetsynth
