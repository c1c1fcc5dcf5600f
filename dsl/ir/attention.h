// Attention as models spell it out: scores = queries x keys, elementwise work, softmax, dropout, times values; and its
// gradient. Recognised from spaces and bodies alone, so that the generator can run it block by block and planning can
// price it as that: no tensor of scores is ever stored.
#pragma once
#include <vector>

#include "dsl/ir/program.h"

namespace hetsynth {

/// One softmax(queries keys) values with its gradient. Every list is in program order; "scores-shaped" tensors are
/// [.., rows, .., columns, ..] of one shape, and hold an element per query and key.
struct Attention {
  // forward
  NodeId scores = -1;               ///< product of queries and keys over their features
  std::vector<NodeId> before;       ///< elementwise, from the scores to what softmax is taken of: scale, bias, mask
  NodeId maximum = -1, total = -1;  ///< per row
  std::vector<NodeId> exponential;  ///< the difference to the maximum and its exponential; or both in one operator
  NodeId weights = -1;              ///< exponential / total
  /// Elementwise and linear, from the weights to what multiplies the values: dropout, rounding to bf16 or fp16.
  std::vector<NodeId> after;
  NodeId mixed = -1;  ///< weights times values
  // backward; all empty if nothing asks for a gradient
  NodeId weights_gradient = -1;         ///< product of the result's gradient and the values
  int result_gradient = 0;              ///< operand of that product
  std::vector<NodeId> after_gradient;   ///< elementwise, back to the gradient by the weights; without roundings
  NodeId dot = -1;                      ///< per row: sum over columns of weights times their gradient
  std::vector<NodeId> scores_gradient;  ///< elementwise: through softmax, then back to the gradient by the scores
  std::vector<NodeId> products;         ///< gradients by values, queries and keys
  std::vector<NodeId> sums;             ///< gradients by what was added to all scores alike: a bias

  int row = -1, column = -1;  ///< dimensions of a scores-shaped tensor: queries, keys (the one softmax sums over)
  /// Columns beyond the row's own global index count as nothing: the last operator before softmax hides them.
  bool causal = false;

  bool has_gradient() const { return weights_gradient >= 0; }
  /// All scores-shaped tensors: those that exist only block by block.
  std::vector<NodeId> hidden() const;
  /// Those of the forward pass.
  std::vector<NodeId> hidden_forward() const;
};

/// Scores at or below this, put in place of hidden ones, vanish in float32 beside any that a model computes.
constexpr double vanishing_score = -1e8;

/// All of them, in program order; a part of the program that another operator, an output or an update looks into is
/// none.
std::vector<Attention> find_attention(const Program& program);

/// For every factor of the node the dimension of the scores-shaped tensor that it indexes through this access, -1 for
/// the others; empty if the access is not plainly one factor per dimension. `shape` is the tensor's.
std::vector<int> dims_of_factors(const Space& space, const Access& access, const Shape& shape);

}  // namespace hetsynth
