// What loops of a program (Program::loops) are made of besides ordinary operators, and a scope in which nodes belong to
// one. For `scan` and for layers that loop over time steps.
#pragma once
#include <memory>
#include <vector>

#include "dsl/ir/operator.h"
#include "dsl/ir/trace.h"

namespace hetsynth {

/// Position along a dimension in each turn: `offset + per_turn * turn`.
struct TurnPosition {
  int dim;
  int64_t offset = 0;
  int64_t per_turn = 1;
  /// The same positions, the last turn's first.
  TurnPosition reversed(int64_t turns) const { return {dim, offset + per_turn * (turns - 1), -per_turn}; }
};

/// While alive, what is emitted belongs to a loop of the current trace. Scopes do not nest.
class LoopScope {
 public:
  /// A new loop.
  LoopScope(int64_t turns);
  /// Goes on with a loop that was made before.
  struct Reopened {
    int loop;
  };
  explicit LoopScope(Reopened which);
  ~LoopScope() { close(); }
  LoopScope(const LoopScope&) = delete;
  LoopScope& operator=(const LoopScope&) = delete;

  int loop() const { return loop_; }
  /// What begins as `initial`, a tensor of outside; `next` says what it is in the next turn.
  Tensor carry(Tensor initial);
  /// Ends the turn for a carry: the next turn begins with `value`, of the same type. Gives the node that holds it,
  /// which is a copy if the value is of outside, is carried itself, or is taken over by another carry.
  Tensor next(Tensor carry, Tensor value);
  /// Leaves the loop; what depends on nothing in it is taken out of it.
  void close();

 private:
  int loop_;
  bool open_ = true;
};

/// x at the turn's position of a dimension, without that dimension: x[:, t]. x is of outside.
Tensor at_turn(Tensor x, const TurnPosition& position);
/// The values of all turns, at their positions of a new dimension. To be read behind the loop only.
Tensor stack_turns(Tensor value, const TurnPosition& position, int64_t turns);
/// What a node of a loop made in the last turn, emitted behind the loop.
Tensor after_last_turn(Tensor value);

/// Operators of which loops are made, for passes over a finished program: the position of a turn, a carry (its input
/// is what it begins with), and what the last turn leaves.
std::shared_ptr<const Operator> at_turn_operator(const TurnPosition& position);
std::shared_ptr<const Operator> carry_operator();
std::shared_ptr<const Operator> last_operator();

/// The turn's position in the operand if the node is an `at_turn`; in the result if it is a stack.
const TurnPosition* slice_position(const Node& node);
const TurnPosition* stack_position(const Node& node);

/// The operators of an unrolled stack: a dimension of extent 1 put in, and such tensors joined along it.
std::shared_ptr<const Operator> insert_dimension(int dim);
std::shared_ptr<const Operator> join_turns(int dim);

}  // namespace hetsynth
