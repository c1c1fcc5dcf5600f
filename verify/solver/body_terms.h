// Bodies of operators as terms of the solver: real arithmetic, everything else uninterpreted.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "dsl/ir/expr.h"
#include "verify/solver/solver.h"

namespace hetsynth {

/// What a body reads.
struct BodyTerms {
  std::function<smt::Term(int)> input;   ///< element of that input
  std::function<smt::Term(int)> factor;  ///< global index of that factor, as a real
  std::function<smt::Term(int)> random;  ///< draw of that stream
  /// Products of two non-constants as an uninterpreted function: faster, and sound for proofs.
  bool opaque_products = true;
  /// Products met, as operand pairs, when they are opaque: that they commute is told to the solver for these alone.
  std::vector<std::pair<smt::Term, smt::Term>>* products = nullptr;
};

smt::Term translate(smt::Solver& solver, const Expr& body, const BodyTerms& terms);

/// The opaque product of two reals.
smt::Term opaque_product(smt::Solver& solver, smt::Term a, smt::Term b);

}  // namespace hetsynth
