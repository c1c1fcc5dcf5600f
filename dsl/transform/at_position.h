// Operators of a program that computes a block of neighbouring positions of a window at a time: one, or several
// (dsl/transform/generation.h). The blocks divide the window evenly. All operators take the block's number, i32 [], as
// their last input where they need it; block 3 of 4 positions has the positions 12 to 15.
#pragma once
#include <memory>
#include <optional>

#include "dsl/ir/program.h"

namespace hetsynth {

/// The factor that alone, plainly and from 0 on, runs over a dimension of the node's result, if its bodies can be
/// computed for one value of it; -1: there is none.
int factor_of_dim(const Node& node, int dim);

/// How an operand is read for one value of a factor: the dimension of it that the factor indexes, and nothing else.
struct OperandAtFactor {
  bool readable = true;  ///< false: not at one position alone (moved, strided, or in several dimensions)
  int dim = -1;          ///< -1: the same for all values of the factor
};
OperandAtFactor operand_at(const Node& node, size_t operand, const Shape& shape, int factor);

/// The node's operator at a block of `count` values of the factor that runs over `dim` of its result, which has an
/// extent of `count` there, as have the operands that the factor indexes.
struct OperatorAtPosition {
  std::shared_ptr<const Operator> op;
  bool reads_position = false;  ///< it has the block's number as a further input
};
OperatorAtPosition operator_at(const Node& node, int dim, int64_t count);

/// The elements of the block along `dim` of a float32 tensor of this shape; inputs: the tensor, the block's number.
std::shared_ptr<const Operator> pick_positions(const Shape& shape, int dim, int64_t count);

/// What is remembered of a tensor [.., length, ..] with the block's elements put in; inputs: what was remembered
/// before, the elements [.., count, ..], the block's number.
std::shared_ptr<const Operator> put_positions(const TensorType& remembered, int dim, int64_t count);

}  // namespace hetsynth
