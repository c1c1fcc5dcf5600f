#include "dsl/ops/lstm.h"

#include "dsl/ops/concat.h"
#include "dsl/ops/constant.h"
#include "dsl/ops/einsum.h"
#include "dsl/ops/reshape.h"
#include "dsl/ops/slice.h"
#include "dsl/ops/support/recurrent.h"

namespace hetsynth {
namespace {

enum Gate { input_gate, forget_gate, candidate, output_gate };

/// The layer's loop. States have the shape [batch, hidden], what flows from them into gates [batch, 4, hidden].
struct Layer {
  Tensor projected, weights;  ///< [batch, time, 4, hidden], [hidden, 4, hidden]
  Tensor first_h, first_c;    ///< before the first step
  int loop = -1;
  Tensor recurrent, before_c;  ///< of a step: the previous hidden state through the weights; the previous cell state
  Tensor h, c;                 ///< of a step
  Tensor sequence;             ///< h of all steps, [batch, time, hidden]

  int64_t steps() const { return projected.size(1); }
  Shape state_shape() const { return {projected.size(0), projected.size(3)}; }

  void run() {
    LoopScope scope(steps());
    loop = scope.loop();
    Tensor before_h = scope.carry(first_h);
    before_c = scope.carry(first_c);
    recurrent = einsum("bh,hgk->bgk", before_h, weights);
    const StepGates gates{projected, recurrent, along_time};
    Statement cell("lstm_state", state_shape());
    c = scope.next(before_c, cell.emit(next_cell(cell, gates, read_state(cell, before_c))));
    Statement out("lstm_output", state_shape());
    h = scope.next(before_h, out.emit(logistic(gates.read(out, output_gate)) * tanh(read_state(out, c))));
    sequence = stack_turns(h, along_time, steps());
  }

  static Expr next_cell(Statement& s, const StepGates& gates, const Expr& before) {
    return logistic(gates.read(s, forget_gate)) * before +
           logistic(gates.read(s, input_gate)) * tanh(gates.read(s, candidate));
  }
};

/// Back-propagation through time (Werbos 1990): a loop over the steps in reverse order.
class Backward {
 public:
  /// `gradient` of `output`: the hidden states of all steps and, if the layer gives its last cell state, that one
  /// behind them.
  Backward(const Layer& layer, Tensor output, Tensor gradient)
      : layer_(layer), output_(output), dy_(gradient), last_cell_(gradient.size(1) > layer.steps()) {}

  /// Gradients of projected, weights (if they are used), first_h and first_c.
  std::vector<Tensor> run() {
    const int64_t steps = layer_.steps();
    save();
    Tensor none = full(layer_.state_shape(), 0);
    Tensor of_last_cell = last_cell_ ? reshape(slice(dy_, 1, steps, steps + 1), layer_.state_shape()) : none;
    LoopScope scope(steps);
    const TurnPosition reversed = along_time.reversed(steps);
    Tensor dh = scope.carry(none), dc_carried = scope.carry(of_last_cell);
    const StepGates gates{layer_.projected, at_turn(recurrent_, saved_.reversed(steps)), reversed};
    Tensor before = at_turn(before_c_, saved_.reversed(steps));
    Tensor dc = cell_gradient(gates, before, dh, dc_carried);
    Tensor dz = gate_gradient(gates, before, dh, dc);
    Tensor first_h = scope.next(dh, einsum("bgk,hgk->bh", dz, layer_.weights));
    Statement carry("lstm_carry_gradient", layer_.state_shape());
    Tensor first_c =
        scope.next(dc_carried, carry.emit(read_state(carry, dc) * logistic(gates.read(carry, forget_gate))));
    Tensor all = stack_turns(dz, reversed, steps);
    scope.close();
    return {all, recurrent_weight_gradient(output_, all, layer_.first_h), after_last_turn(first_h),
            after_last_turn(first_c)};
  }

 private:
  /// The forward loop keeps what the gates are made from; cell states are made again from those before them.
  void save() {
    LoopScope scope(LoopScope::Reopened{layer_.loop});
    recurrent_ = stack_turns(layer_.recurrent, saved_, layer_.steps());
    before_c_ = stack_turns(layer_.before_c, saved_, layer_.steps());
  }

  Expr hidden_gradient(Statement& s, const StepGates& gates, Tensor dh) const {
    return read_step(s, dy_, gates.position) + read_state(s, dh);
  }

  Expr cell(Statement& s, const StepGates& gates, Tensor before) const {
    return Layer::next_cell(s, gates, read_state(s, before));
  }

  Tensor cell_gradient(const StepGates& gates, Tensor before, Tensor dh, Tensor carried) const {
    Statement s("lstm_state_gradient", layer_.state_shape());
    const Expr tanh_c = tanh(cell(s, gates, before));
    return s.emit(hidden_gradient(s, gates, dh) * logistic(gates.read(s, output_gate)) * (1.0 - tanh_c * tanh_c) +
                  read_state(s, carried));
  }

  /// [batch, 4, hidden]: of what flows into each gate, by the derivative of its activation.
  Tensor gate_gradient(const StepGates& gates, Tensor before, Tensor dh, Tensor cell_gradient) const {
    Shape shape = layer_.state_shape();
    shape.insert(shape.begin() + 1, 4);
    Statement s("lstm_gate_gradient", shape);
    const Expr at = s.index(1), z = gates.read(s, s.dim(1)), dc = read_state(s, cell_gradient);
    const Expr is_candidate = equal(at, double(candidate));
    const Expr activation = select(is_candidate, tanh(z), logistic(z));
    const Expr slope = select(is_candidate, 1.0 - activation * activation, activation * (1.0 - activation));
    const Expr by_output = hidden_gradient(s, gates, dh) * tanh(cell(s, gates, before));
    const Expr by_forget = dc * read_state(s, before);
    const Expr by_input = dc * tanh(gates.read(s, candidate));
    const Expr by_candidate = dc * logistic(gates.read(s, input_gate));
    return s.emit(slope * select(equal(at, double(input_gate)), by_input,
                                 select(equal(at, double(forget_gate)), by_forget,
                                        select(is_candidate, by_candidate, by_output))));
  }

  const Layer& layer_;
  Tensor output_, dy_;
  bool last_cell_;
  const TurnPosition saved_{.dim = 0};
  Tensor recurrent_, before_c_;  ///< of all steps
};

/// [batch, time, hidden], or with the last cell state behind it [batch, time + 1, hidden].
Tensor run_layer(Tensor x, const LstmWeights& w, const LstmState& initial, bool last_cell) {
  const CellSizes sizes = check_cell("lstm", 4, 3, x, w.input, w.recurrent, w.bias, {initial.h, initial.c});
  const auto first = [&](Tensor state) { return state.defined() ? state : full({sizes.batch, sizes.hidden}, 0); };
  Layer layer;
  layer.projected = project_inputs(x, w.input, w.bias);
  layer.weights = w.recurrent;
  layer.first_h = first(initial.h);
  layer.first_c = first(initial.c);
  layer.run();
  Tensor out = layer.sequence;
  if (last_cell) {
    Tensor last = reshape(after_last_turn(layer.c), {sizes.batch, 1, sizes.hidden});
    out = concat({out, last}, 1);
  }
  Trace::current().set_custom_vjp(
      out, {layer.projected, layer.weights, layer.first_h, layer.first_c},
      [layer](const VjpArguments& v) { return Backward(layer, v.output, v.output_gradient).run(); });
  return out;
}

}  // namespace

Tensor lstm(Operand x, const LstmWeights& weights, const LstmState& initial) {
  CallScope scope(x.where);
  return run_layer(as_tensor(x), weights, initial, false);
}

LstmStates lstm_states(Operand x, const LstmWeights& weights, const LstmState& initial) {
  CallScope scope(x.where);
  Tensor all = run_layer(as_tensor(x), weights, initial, true);
  const int64_t steps = all.size(1) - 1, batch = all.size(0), hidden = all.size(2);
  const auto last = [&](int64_t at) { return reshape(slice(all, 1, at, at + 1), {batch, hidden}); };
  return {slice(all, 1, 0, steps), {last(steps - 1), last(steps)}};
}

OperatorInfo lstm_info() { return {"lstm", "A long short-term memory over a sequence.", {}}; }

}  // namespace hetsynth
