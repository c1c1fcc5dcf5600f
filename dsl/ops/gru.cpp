#include "dsl/ops/gru.h"

#include "dsl/ops/constant.h"
#include "dsl/ops/einsum.h"
#include "dsl/ops/slice.h"
#include "dsl/ops/sum.h"
#include "dsl/ops/support/recurrent.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

enum Gate { reset, update, candidate };

/// The layer's loop. States have the shape [batch, hidden], what flows from them into gates [batch, 3, hidden].
struct Layer {
  Tensor projected, weights;  ///< [batch, time, 3, hidden], [hidden, 3, hidden]
  Tensor candidate_bias;      ///< [hidden]
  Tensor first;               ///< state before the first step
  int loop = -1;
  Tensor recurrent, before;  ///< of a step: the previous state through the weights, and itself
  Tensor sequence;           ///< states of all steps, [batch, time, hidden]

  int64_t steps() const { return projected.size(1); }
  Shape state_shape() const { return {projected.size(0), projected.size(3)}; }

  void run() {
    LoopScope scope(steps());
    loop = scope.loop();
    before = scope.carry(first);
    recurrent = einsum("bh,hgk->bgk", before, weights);
    const StepGates gates{projected, recurrent, along_time};
    Statement s("gru_state", state_shape());
    const Expr z = logistic(gates.read(s, update)), n = candidate_at(s, gates);
    Tensor h = scope.next(before, s.emit((1.0 - z) * n + z * read_state(s, before)));
    sequence = stack_turns(h, along_time, steps());
  }

  /// What the reset gate scales: the candidate's part of the previous state, with its bias.
  Expr inner(Statement& s, const StepGates& gates) const {
    return gates.read_recurrent(s, candidate) + s.read(candidate_bias, {s.dim(s.rank() - 1)});
  }
  Expr candidate_at(Statement& s, const StepGates& gates) const {
    return tanh(gates.read_projected(s, candidate) + logistic(gates.read(s, reset)) * inner(s, gates));
  }
};

/// Back-propagation through time (Werbos 1990): a loop over the steps in reverse order.
class Backward {
 public:
  Backward(const Layer& layer, Tensor states, Tensor gradient) : layer_(layer), states_(states), dy_(gradient) {}

  /// Gradients of projected, candidate_bias, weights and the first state.
  std::vector<Tensor> run() {
    const int64_t steps = layer_.steps();
    save();
    Tensor none = full(layer_.state_shape(), 0);
    LoopScope scope(steps);
    const TurnPosition reversed = along_time.reversed(steps);
    Tensor dh = scope.carry(none);
    const StepGates gates{layer_.projected, at_turn(recurrent_, saved_.reversed(steps)), reversed};
    Tensor before = at_turn(before_, saved_.reversed(steps));
    Tensor by_input = gate_gradient(gates, before, dh, false), by_state = gate_gradient(gates, before, dh, true);
    Tensor through_gates = einsum("bgk,hgk->bh", by_state, layer_.weights);
    Statement s("gru_carry_gradient", layer_.state_shape());
    Tensor first = scope.next(
        dh, s.emit(hidden_gradient(s, gates, dh) * logistic(gates.read(s, update)) + read_state(s, through_gates)));
    Tensor all_by_input = stack_turns(by_input, reversed, steps), all_by_state = stack_turns(by_state, reversed, steps);
    scope.close();
    return {all_by_input, sum(slice(all_by_state, 2, candidate, candidate + 1), {0, 1, 2}),
            recurrent_weight_gradient(states_, all_by_state, layer_.first), after_last_turn(first)};
  }

 private:
  void save() {
    LoopScope scope(LoopScope::Reopened{layer_.loop});
    recurrent_ = stack_turns(layer_.recurrent, saved_, layer_.steps());
    before_ = stack_turns(layer_.before, saved_, layer_.steps());
  }

  Expr hidden_gradient(Statement& s, const StepGates& gates, Tensor dh) const {
    return read_step(s, dy_, gates.position) + read_state(s, dh);
  }

  /// [batch, 3, hidden]: of what flows into the gates from the input, or from the previous state; they differ in the
  /// candidate, which sees the state through the reset gate.
  Tensor gate_gradient(const StepGates& gates, Tensor before, Tensor carried, bool from_state) const {
    Shape shape = layer_.state_shape();
    shape.insert(shape.begin() + 1, 3);
    Statement s(from_state ? "gru_state_gate_gradient" : "gru_input_gate_gradient", shape);
    const Expr r = logistic(gates.read(s, reset)), z = logistic(gates.read(s, update));
    const Expr n = layer_.candidate_at(s, gates), dh = hidden_gradient(s, gates, carried), at = s.index(1);
    const Expr by_candidate = dh * (1.0 - z) * (1.0 - n * n);
    const Expr by_update = dh * (read_state(s, before) - n) * z * (1.0 - z);
    const Expr by_reset = by_candidate * layer_.inner(s, gates) * r * (1.0 - r);
    return s.emit(select(equal(at, double(reset)), by_reset,
                         select(equal(at, double(update)), by_update, from_state ? by_candidate * r : by_candidate)));
  }

  const Layer& layer_;
  Tensor states_, dy_;
  const TurnPosition saved_{.dim = 0};
  Tensor recurrent_, before_;  ///< of all steps
};

}  // namespace

Tensor gru(Operand x, const GruWeights& w, Tensor initial) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x);
  const CellSizes sizes = check_cell("gru", 3, 3, in, w.input, w.recurrent, w.bias, {initial});
  if (w.candidate_bias.shape() != Shape{sizes.hidden})
    fail_call({.tag = "gru",
               .message = "the bias of the candidate has the wrong shape",
               .expected = text(Shape{sizes.hidden}),
               .found = text(w.candidate_bias.shape())},
              {in, w.candidate_bias});
  Layer layer;
  layer.projected = project_inputs(in, w.input, w.bias);
  layer.weights = w.recurrent;
  layer.candidate_bias = w.candidate_bias;
  layer.first = initial.defined() ? initial : full({sizes.batch, sizes.hidden}, 0);
  layer.run();
  Trace::current().set_custom_vjp(
      layer.sequence, {layer.projected, layer.candidate_bias, layer.weights, layer.first},
      [layer](const VjpArguments& v) { return Backward(layer, v.output, v.output_gradient).run(); });
  return layer.sequence;
}

OperatorInfo gru_info() { return {"gru", "A gated recurrent unit over a sequence.", {}}; }

}  // namespace hetsynth
