// Boundary tables as unknowns: what the theorems about rules say of tables holds for all of their form.
#pragma once
#include <map>
#include <vector>

#include "verify/rules/normalised_plan.h"
#include "verify/solver/solver.h"

namespace hetsynth::theorems {

using Terms = std::vector<smt::Term>;

/// [lo, hi) of a dimension, or of a factor.
struct Interval {
  smt::Term lo, hi;
};

/// The boundaries of a plan's tables, of which nothing is known but what the verifier's checks of form say: they rise
/// from 0 to the extent, or divide the parts of another table. Tables that the subject takes for the same are the same.
class Tables {
 public:
  Tables(const Subject& subject, smt::Solver& solver) : s_(subject), solver_(solver) {}

  /// What a rank has of a dimension of `extent` elements that the table cuts. Expects a table that fits (uncuttable).
  Interval part(int table, int64_t extent, int rank);
  /// What the ranks of its group have together.
  Interval group(int table, int64_t extent, int rank);

  /// What is known of all tables that were asked for.
  const Terms& facts() const { return facts_; }

 private:
  /// Boundary `at` of row `row`, in elements of a dimension of that extent.
  smt::Term bound(int table, int row, int at, int64_t extent);
  smt::Term in_units(int table, int row, int at);
  void declare(int table, int row);
  int row_of(int table, int rank) const;

  const Subject& s_;
  smt::Solver& solver_;
  Terms facts_;
  std::map<std::pair<int, int>, Terms> rows_;
};

/// The table over the axis that a nesting table varies along whose parts it divides further; -1 if the plan has none.
int outer_table(const SpmdProgram& program, int table);

}  // namespace hetsynth::theorems
