// Sums of products of operands by strides: the bulk of what the reference interpreter computes (matrix products,
// convolutions, sums), many times faster than expression by expression and with the same result to the last bit.
#pragma once
#include <optional>
#include <vector>

#include "dsl/ir/interpreter.h"

namespace hetsynth {

/// How long the interpreter takes for an operator, in evaluations of an expression: terms of sums of products count as
/// a small part of one.
double evaluation_cost(const Space& space, const Expr& body);

class ProductSum {
 public:
  /// `reduced`: the factors that are summed over, outermost first; all others are indices of the output element.
  ProductSum(const Space& space, const Expr& body, const std::vector<LocalArray>& inputs,
             const std::vector<Range>& ranges, const std::vector<int>& reduced);

  /// Whether the body is one operand or the product of two, read at plain indices.
  bool applies() const { return !operands_.empty(); }

  /// The sum for one output element; `index` holds its factors. Terms outside of an operand that is zero there are left
  /// out. None if an operand does not hold all that it takes, or in a form that this class does not know.
  std::optional<double> at(const std::vector<int64_t>& index);

 private:
  struct Operand {
    const LocalArray* array;
    const Access* access;
    std::vector<int64_t> strides;  ///< elements per step of each reduced factor
  };

  void add_operand(const Space& space, int input, const std::vector<LocalArray>& inputs);
  /// Narrows `box_` to the terms that lie inside of the operand; false if that cannot be told.
  bool clip(const Operand& operand, const std::vector<int64_t>& index);
  bool clip(const DimIndex& dim, int64_t start, int64_t extent);
  int64_t start(const Operand& operand, const std::vector<int64_t>& index) const;
  void sum(size_t depth, const double* a, const double* b, double& total) const;

  const std::vector<int>& reduced_;
  std::vector<Range> ranges_;  ///< by reduced factor
  std::vector<Range> box_;     ///< what is summed for the current element
  std::vector<int> depth_of_;  ///< by factor: its place among the reduced ones, -1 if it is none
  std::vector<Operand> operands_;
};

}  // namespace hetsynth
