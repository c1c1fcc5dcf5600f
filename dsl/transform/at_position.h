// Operators of a program that computes one position of a window at a time (dsl/transform/generation.h). All take the
// position's number, i32 [], as their last input where they need it.
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

/// The node's operator at one value of the factor that runs over `dim` of its result, which has an extent of 1 there,
/// as have the operands that the factor indexes.
struct OperatorAtPosition {
  std::shared_ptr<const Operator> op;
  bool reads_position = false;  ///< it has the position as a further input
};
OperatorAtPosition operator_at(const Node& node, int dim);

/// The element at the position along `dim` of a float32 tensor of this shape; inputs: the tensor, the position.
std::shared_ptr<const Operator> pick_position(const Shape& shape, int dim);

/// What is remembered of a tensor [.., length, ..] with the position's element put in; inputs: what was remembered
/// before, the element [.., 1, ..], the position.
std::shared_ptr<const Operator> put_position(const TensorType& remembered, int dim);

}  // namespace hetsynth
