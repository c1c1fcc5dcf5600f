// Definitions of compute instructions, independent of the rules: what every device has after one.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "tests/theorems/polynomials.h"

namespace hetsynth::theorems {

/// An operator between tensors A and B (of three elements per dimension), as a node and once more as arithmetic.
struct Operation {
  std::string name;
  Program program;  ///< leaves A, B and other tensors of their shapes; the last node is the operator's
  /// The body over real polynomials; none: the largest of the inputs.
  std::function<Polynomial(const std::vector<Polynomial>&)> body;

  const Node& node() const { return program.nodes.back(); }
};
const std::vector<Operation>& operations();

/// A compute instruction with what its operands hold, and what it is said to leave.
struct Computation {
  Instruction instruction;
  std::vector<Held> operands;
  Held result;
};

/// Whether the result holds what it is said to hold, for all tables, tensors and elements.
smt::Answer prove(const Subject& subject, const Operation& operation, const Computation& computation);

}  // namespace hetsynth::theorems
