// What must hold for one compute instruction, told without names: sizes, boundaries and device counts are arbitrary.
// Equal obligations are equal texts, so that a repeated layer is proved once.
#pragma once
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dsl/ir/expr.h"
#include "dsl/ir/space.h"
#include "dsl/spmd/spmd.h"
#include "verify/solver/solver.h"

namespace hetsynth {

/// A range of a factor or digit: everything, or one device's part [lo, hi) under an arbitrary boundary table. Cuts of
/// one obligation are numbered; two numbers may be any two tables.
using Cut = int;
constexpr Cut whole = -1;

/// One dimension of an operand as the instruction reads it.
struct DimRead {
  /// The terms are the digits of a mixed radix that covers the dimension exactly (lemma mixed_radix): the index is then
  /// spoken of as its digits, and no size matters. Otherwise terms, offset and extent count as numbers.
  bool digits = true;
  DimIndex index;
  int64_t extent = 0;
  Cut held = whole;   ///< part of the outermost digit (or of the dimension) that a device holds
  int64_t scale = 1;  ///< of numbers: the part is [lo * scale, hi * scale), as a strided window's share of its image
  int64_t before = 0, after = 0;  ///< of numbers: held besides, around a part that is not empty and within the extent
};

struct OperandRead {
  std::vector<DimRead> dims;
  bool zero_outside = false;
  int input = 0;  ///< the input of the logical node that the operand stands for
};

struct FactorRun {
  FactorKind kind = FactorKind::parallel;
  int64_t size = 0;      ///< 0: any
  Cut executed = whole;  ///< what a device loops over
  Cut claimed = whole;   ///< parallel: what its result is said to cover; reduced: the part of the reduction its result
                         ///< is said to hold
};

/// Inputs of the logical node that are partial over one mesh axis.
struct PartialInputs {
  ReduceOp reduce = ReduceOp::sum;
  std::set<int> inputs;
};

struct Obligation {
  std::vector<FactorRun> factors;
  std::vector<OperandRead> operands;          ///< by operand of the instruction
  std::vector<DimIndex> output;               ///< digits of the result's dimensions: what a random draw is indexed by
  std::vector<std::pair<Cut, Cut>> nested{};  ///< the part under the first cut lies in that under the second
  std::vector<PartialInputs> partial;         ///< one entry per mesh axis with partial operands
  int64_t turns = 0;  ///< of the loop around, if indices follow its turn: any one of them is meant
  Expr body = 0.0;
};

/// Numbers the cuts in order of appearance. Obligations that differ only in which tables they use become equal.
void number_cuts(Obligation& obligation);

/// Everything that the proof depends on, as text.
std::string key(const Obligation& obligation);

/// Parts of an obligation, in the order they are tried.
enum class ObligationPart : uint8_t {
  none,
  extent,    ///< what is executed is not what the result is said to cover
  bounds,    ///< an operand is read outside of what the device holds
  value,     ///< the local result differs from the claimed one
  additive,  ///< partial operands do not pass through the body
};

struct ObligationResult {
  smt::Answer answer = smt::Answer::unknown;
  ObligationPart failed = ObligationPart::none;
  int operand = -1;  ///< bounds: which operand; additive: which entry of `partial`
  int proofs = 0;    ///< queries answered
};

ObligationResult prove(smt::Solver& solver, const Obligation& obligation);

}  // namespace hetsynth
