// What recurrent cells share: the checks of their shapes, and reading gates.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "dsl/ops/support/statement.h"

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

/// A state [batch, hidden] with a dimension of time of extent 1; not defined stays so.
Tensor with_time(Tensor state);

/// What flows into a gate at step `step` of a sequence: `projected` [batch, time, gates, hidden] and, if it is defined,
/// `recurrent` [batch, 1, gates, hidden]. The statement's dimension 0 is the batch and its last the hidden features.
struct StepGates {
  Tensor projected;
  Tensor recurrent;
  int64_t step;

  Expr read(Statement& statement, const DimIndex& gate) const;
  Expr read(Statement& statement, int gate) const { return read(statement, Statement::fixed(gate)); }
};

/// [batch, 1, hidden] at its element, or 0 if it is not defined.
Expr read_state(Statement& statement, Tensor state);
/// [batch, time, hidden] at a step.
Expr read_step(Statement& statement, Tensor sequence, int64_t step);

/// Gradient of the recurrent weights [hidden, gates, hidden], all steps in one product: `states` [batch, time, hidden]
/// before each step but the first against `gates` [batch, time, gates, hidden], the gradients of what flows into the
/// gates; and `first_state` [batch, 1, hidden], where it is defined, against those of step 0. Not defined for one step
/// from no state.
Tensor recurrent_weight_gradient(Tensor states, Tensor gates, Tensor first_state, Tensor first_gates);

}  // namespace hetsynth
