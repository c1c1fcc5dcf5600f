// The stage `localize`: what one rank computes, as operators over its own index ranges. Constants are substituted into
// bodies, and reads through views (transpose, broadcast, slice) become reads of what is behind them.
#pragma once
#include <map>
#include <optional>
#include <vector>

#include "codegen/passes/access.h"
#include "dsl/spmd/spmd.h"

namespace hetsynth::codegen {

/// A read of a value; the access is in terms of the reading operator's factors and gives GLOBAL indices.
struct Operand {
  ValueId value = -1;
  Access access;
};

/// A local operator or a collective. Index terms of factors with a single local value are folded into offsets, and
/// divisions and remainders that the local range makes trivial are gone.
struct LocalOp {
  ValueId result = -1;
  NodeId node = -1;
  Phase phase = Phase::forward;
  int loop = -1;                ///< in whose turns it runs; -1: once
  bool again = false;           ///< the plan makes this value for the second time, so as not to keep it
  bool keeps = false;           ///< the result has storage of its own, though it be what is elsewhere: it crosses turns
  std::vector<Operand> inputs;  ///< of a collective: none where this rank gives nothing and only receives
  // compute
  std::vector<Factor> factors;
  std::vector<Range> ranges;  ///< per factor, what this rank executes
  Access output;
  int64_t first_draw = 0, draws_per_turn = 0;  ///< as in Space
  Expr body = 0.0;
  /// Sum over a one-hot factor: the factor takes the value of an integer operand instead of being looped over. The same
  /// structure with the factor indexing the output of a reduction is a scatter.
  std::optional<OneHot> one_hot;
  bool converts = false;  ///< the result has another element type than input 0
  // collective
  std::optional<Instruction> collective;

  int64_t extent(int factor) const { return ranges[factor].hi - ranges[factor].lo; }
  std::optional<FactorKind> reduction() const;
  /// The result is input 0, element by element, wherever its accesses say.
  bool is_view() const;
  /// The factor that one_hot names instead of a loop; -1 if none.
  int looked_up() const { return one_hot ? one_hot->factor : -1; }
};

/// Which random draw an element of the result takes, over the op's counters; `shape`: of the whole result.
Address draw_number(const LocalOp& op, const Shape& shape);

struct LocalValue {
  NodeId node = -1;
  TensorType type;            ///< of the whole tensor
  std::vector<Range> ranges;  ///< what this rank holds of it
  bool held = true;           ///< false: it lies on another stage
  int64_t count() const;      ///< elements held
};

struct LocalLoop {
  int64_t turns = 1;
  /// At the end of a turn the first takes the contents of the second. What it is in turn 0 an operator before the loop
  /// makes.
  std::vector<std::pair<ValueId, ValueId>> carried;
};

struct LocalProgram {
  int rank = 0;
  std::vector<LocalValue> values;  ///< by ValueId
  std::vector<LocalOp> ops;        ///< in order of execution; only what is needed, and what this rank takes part in
  std::vector<LocalLoop> loops;
  std::vector<ValueId> leaves;                      ///< that this rank holds
  std::vector<std::pair<NodeId, ValueId>> finals;   ///< as in the SPMD program; never the plain leaf of another target
  std::vector<std::pair<NodeId, ValueId>> outputs;  ///< value to read each named output from
  ValueId loss = -1;
  /// Values that must lie row-major in one piece: leaves, finals, outputs, loss, what loops carry, operands
  /// and results of collectives.
  std::vector<bool> pinned;
  std::vector<ValueId> first;         ///< by value of the plan: see first_made in dsl/spmd/recomputation.h
  std::map<ValueId, ValueId> copied;  ///< values that the plan has not, which lie row-major: copies of which of it

  /// The plan's value that a value is, or is a copy of.
  ValueId planned(ValueId value) const { return copied.count(value) ? copied.at(value) : value; }

  /// What the plan made first of what it makes again in a value; the value itself if it makes it once.
  ValueId first_made(ValueId value) const { return size_t(value) < first.size() ? first[size_t(value)] : value; }
};

LocalProgram localize(const Program& reference, const SpmdProgram& program, int rank);

/// Replaces inputs by expressions where given (by operand number), folds constants, drops additions of 0 and
/// multiplications by 1.
Expr substitute_and_fold(const Expr& body, const std::vector<std::optional<Expr>>& inputs);

}  // namespace hetsynth::codegen
