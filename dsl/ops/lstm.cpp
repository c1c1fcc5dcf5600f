#include "dsl/ops/lstm.h"

#include <algorithm>

#include "dsl/ops/add.h"
#include "dsl/ops/concat.h"
#include "dsl/ops/einsum.h"
#include "dsl/ops/reshape.h"
#include "dsl/ops/slice.h"
#include "dsl/ops/support/recurrent.h"

namespace hetsynth {
namespace {

enum Gate { input_gate, forget_gate, candidate, output_gate };

/// The unrolled layer. States have the shape [batch, 1, hidden], what flows from them into gates [batch, 1, 4, hidden].
struct Layer {
  Tensor projected, weights;      ///< [batch, time, 4, hidden], [hidden, 4, hidden]
  Tensor first_h, first_c;        ///< before the first step; not defined: zeros
  std::vector<Tensor> recurrent;  ///< by step: the previous hidden state through the weights
  std::vector<Tensor> h, c;       ///< after each step

  int64_t steps() const { return projected.size(1); }
  Shape state_shape() const { return {projected.size(0), 1, projected.size(3)}; }
  StepGates gates(int64_t t) const { return {projected, recurrent[static_cast<size_t>(t)], t}; }
  Tensor before(const std::vector<Tensor>& states, Tensor first, int64_t t) const {
    return t == 0 ? first : states[static_cast<size_t>(t) - 1];
  }

  void step(int64_t t) {
    Tensor previous = before(h, first_h, t), cell = before(c, first_c, t);
    recurrent.push_back(previous.defined() ? einsum("bah,hgk->bagk", previous, weights) : Tensor());
    Statement next("lstm_state", state_shape());
    Expr value = logistic(gates(t).read(next, input_gate)) * tanh(gates(t).read(next, candidate));
    if (cell.defined()) value = logistic(gates(t).read(next, forget_gate)) * read_state(next, cell) + value;
    c.push_back(next.emit(value));
    Statement out("lstm_output", state_shape());
    h.push_back(out.emit(logistic(gates(t).read(out, output_gate)) * tanh(read_state(out, c.back()))));
  }
};

/// Back-propagation through time (Werbos 1990). `states` holds the hidden states of all steps and, if the layer gives
/// its last cell state, that one behind them.
class Backward {
 public:
  Backward(const Layer& layer, Tensor states, Tensor gradient)
      : layer_(layer), states_(states), dy_(gradient), last_cell_(gradient.size(1) > layer.steps()) {}

  /// Gradients of projected, weights (if they were used), and the first states that are defined.
  std::vector<Tensor> run() {
    const int64_t steps = layer_.steps();
    dz_.resize(static_cast<size_t>(steps));
    for (int64_t t = steps - 1; t >= 0; --t) {
      dc_ = cell_gradient(t);
      dz_[static_cast<size_t>(t)] = gate_gradient(t);
      if (layer_.before(layer_.h, layer_.first_h, t).defined())
        dh_ = einsum("bagk,hgk->bah", dz_[static_cast<size_t>(t)], layer_.weights);
    }
    Tensor dz = concat(dz_, 1);
    std::vector<Tensor> out = {dz};
    Tensor weights = recurrent_weight_gradient(states_, dz, layer_.first_h, dz_.front());
    if (weights.defined()) out.push_back(weights);
    if (layer_.first_h.defined()) out.push_back(dh_);
    if (layer_.first_c.defined()) {
      Statement s("lstm_carry_gradient", layer_.state_shape());
      out.push_back(s.emit(read_state(s, dc_) * logistic(layer_.gates(0).read(s, forget_gate))));
    }
    return out;
  }

 private:
  /// Of the hidden state after step t: from above and, but for the last, from the next step.
  Expr hidden_gradient(Statement& s, int64_t t) const {
    const Expr above = read_step(s, dy_, t);
    return t + 1 < layer_.steps() ? above + read_state(s, dh_) : above;
  }

  Tensor cell_gradient(int64_t t) const {
    Statement s("lstm_state_gradient", layer_.state_shape());
    const Expr tanh_c = tanh(read_state(s, layer_.c[static_cast<size_t>(t)]));
    Expr value = hidden_gradient(s, t) * logistic(layer_.gates(t).read(s, output_gate)) * (1.0 - tanh_c * tanh_c);
    if (t + 1 < layer_.steps()) {
      value = value + read_state(s, dc_) * logistic(layer_.gates(t + 1).read(s, forget_gate));
    } else if (last_cell_) {
      value = value + read_step(s, dy_, t + 1);
    }
    return s.emit(value);
  }

  /// [batch, 1, 4, hidden]: of what flows into each gate, by the derivative of its activation.
  Tensor gate_gradient(int64_t t) const {
    Shape shape = layer_.state_shape();
    shape.insert(shape.begin() + 2, 4);
    Statement s("lstm_gate_gradient", shape);
    const StepGates gates = layer_.gates(t);
    const Expr at = s.index(2), z = gates.read(s, s.dim(2)), dc = read_state(s, dc_);
    const Expr is_candidate = equal(at, double(candidate));
    const Expr activation = select(is_candidate, tanh(z), logistic(z));
    const Expr slope = select(is_candidate, 1.0 - activation * activation, activation * (1.0 - activation));
    const Expr by_output = hidden_gradient(s, t) * tanh(read_state(s, layer_.c[static_cast<size_t>(t)]));
    const Expr by_forget = dc * read_state(s, layer_.before(layer_.c, layer_.first_c, t));
    const Expr by_input = dc * tanh(gates.read(s, candidate));
    const Expr by_candidate = dc * logistic(gates.read(s, input_gate));
    return s.emit(slope * select(equal(at, double(input_gate)), by_input,
                                 select(equal(at, double(forget_gate)), by_forget,
                                        select(is_candidate, by_candidate, by_output))));
  }

  const Layer& layer_;
  Tensor states_, dy_;
  bool last_cell_;
  Tensor dh_, dc_;  ///< of the states between the current step and the next
  std::vector<Tensor> dz_;
};

/// [batch, time, hidden], or with the last cell state behind it [batch, time + 1, hidden].
Tensor unroll(Tensor x, const LstmWeights& w, const LstmState& initial, bool last_cell) {
  check_cell("lstm", 4, 3, x, w.input, w.recurrent, w.bias, {initial.h, initial.c});
  Layer layer{project_inputs(x, w.input, w.bias), w.recurrent, with_time(initial.h), with_time(initial.c), {}, {}, {}};
  for (int64_t t = 0; t < layer.steps(); ++t) layer.step(t);
  std::vector<Tensor> states = layer.h;
  if (last_cell) states.push_back(layer.c.back());
  Tensor out = concat(states, 1);
  std::vector<Tensor> inputs = {layer.projected};
  if (layer.steps() > 1 || layer.first_h.defined()) inputs.push_back(layer.weights);
  for (Tensor first : {layer.first_h, layer.first_c}) {
    if (first.defined()) inputs.push_back(first);
  }
  Trace::current().set_custom_vjp(
      out, inputs, [layer](const VjpArguments& v) { return Backward(layer, v.output, v.output_gradient).run(); });
  return out;
}

}  // namespace

Tensor lstm(Operand x, const LstmWeights& weights, const LstmState& initial) {
  CallScope scope(x.where);
  return unroll(as_tensor(x), weights, initial, false);
}

LstmStates lstm_states(Operand x, const LstmWeights& weights, const LstmState& initial) {
  CallScope scope(x.where);
  Tensor all = unroll(as_tensor(x), weights, initial, true);
  const int64_t steps = all.size(1) - 1, batch = all.size(0), hidden = all.size(2);
  const auto last = [&](int64_t at) { return reshape(slice(all, 1, at, at + 1), {batch, hidden}); };
  return {slice(all, 1, 0, steps), {last(steps - 1), last(steps)}};
}

OperatorInfo lstm_info() { return {"lstm", "A long short-term memory over a sequence.", {}}; }

}  // namespace hetsynth
