// What recurrent cells share: the checks of their shapes, and reading gates.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "dsl/ops/support/statement.h"
#include "dsl/ops/support/turn_operators.h"

namespace hetsynth {

/// Sizes of a cell.
struct CellSizes {
  int64_t batch, inputs, hidden;
};

/// Throws UserError unless x is [batch, inputs] (or [batch, time, inputs] if `rank` is 3), the weights [inputs, gates,
/// hidden], [hidden, gates, hidden] and [gates, hidden], and the states that are defined [batch, hidden].
CellSizes check_cell(std::string_view tag, int gates, int rank, Tensor x, Tensor input, Tensor recurrent, Tensor bias,
                     const std::vector<Tensor>& states);

/// x input + bias: [batch, gates, hidden], or [batch, time, gates, hidden].
Tensor project_inputs(Tensor x, Tensor input, Tensor bias);

/// Of a sequence [batch, time, ...], one step after the other.
constexpr TurnPosition along_time{.dim = 1};

/// What flows into a gate in a turn of the layer's loop: `projected` [batch, time, gates, hidden] at the turn's
/// position, and `recurrent` [batch, gates, hidden]. The statement's dimension 0 is the batch and its last the hidden
/// features.
struct StepGates {
  Tensor projected;
  Tensor recurrent;
  TurnPosition position;

  Expr read_projected(Statement& statement, const DimIndex& gate) const;
  Expr read_recurrent(Statement& statement, const DimIndex& gate) const;
  Expr read(Statement& statement, const DimIndex& gate) const {
    return read_projected(statement, gate) + read_recurrent(statement, gate);
  }
  Expr read_projected(Statement& s, int gate) const { return read_projected(s, Statement::fixed(gate)); }
  Expr read_recurrent(Statement& s, int gate) const { return read_recurrent(s, Statement::fixed(gate)); }
  Expr read(Statement& s, int gate) const { return read(s, Statement::fixed(gate)); }
};

/// [batch, hidden] at the statement's element.
Expr read_state(Statement& statement, Tensor state);
/// [batch, time, hidden] at the turn's position.
Expr read_step(Statement& statement, Tensor sequence, const TurnPosition& position);

/// Gradient of the recurrent weights [hidden, gates, hidden], all steps in one product: `states` [batch, time, hidden]
/// before each step but the first against `gates` [batch, time, gates, hidden], the gradients of what flows into the
/// gates; and `first` [batch, hidden] against those of step 0.
Tensor recurrent_weight_gradient(Tensor states, Tensor gates, Tensor first);

}  // namespace hetsynth
