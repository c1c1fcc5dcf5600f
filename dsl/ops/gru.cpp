#include "dsl/ops/gru.h"

#include <algorithm>

#include "dsl/ops/add.h"
#include "dsl/ops/concat.h"
#include "dsl/ops/einsum.h"
#include "dsl/ops/slice.h"
#include "dsl/ops/sum.h"
#include "dsl/ops/support/recurrent.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

enum Gate { reset, update, candidate };

/// The unrolled layer. States have the shape [batch, 1, hidden], what flows from them into gates [batch, 1, 3, hidden].
struct Layer {
  Tensor projected, weights;      ///< [batch, time, 3, hidden], [hidden, 3, hidden]
  Tensor candidate_bias;          ///< [hidden]
  Tensor first;                   ///< state before the first step; not defined: zeros
  std::vector<Tensor> recurrent;  ///< by step: the previous state through the weights
  std::vector<Tensor> h;          ///< after each step

  int64_t steps() const { return projected.size(1); }
  Shape state_shape() const { return {projected.size(0), 1, projected.size(3)}; }
  StepGates gates(int64_t t) const { return {projected, recurrent[static_cast<size_t>(t)], t}; }
  Tensor before(int64_t t) const { return t == 0 ? first : h[static_cast<size_t>(t) - 1]; }

  /// What the reset gate scales: the candidate's part of the previous state, with its bias.
  Expr inner(Statement& s, int64_t t) const {
    const Expr bias = s.read(candidate_bias, {s.dim(s.rank() - 1)});
    return recurrent[static_cast<size_t>(t)].defined()
               ? s.read(recurrent[static_cast<size_t>(t)],
                        {s.dim(0), Statement::fixed(0), Statement::fixed(candidate), s.dim(s.rank() - 1)}) +
                     bias
               : bias;
  }
  Expr projected_candidate(Statement& s, int64_t t) const {
    return s.read(projected, {s.dim(0), Statement::fixed(t), Statement::fixed(candidate), s.dim(s.rank() - 1)});
  }
  Expr candidate_at(Statement& s, int64_t t) const {
    return tanh(projected_candidate(s, t) + logistic(gates(t).read(s, reset)) * inner(s, t));
  }

  void step(int64_t t) {
    Tensor previous = before(t);
    recurrent.push_back(previous.defined() ? einsum("bah,hgk->bagk", previous, weights) : Tensor());
    Statement s("gru_state", state_shape());
    const Expr z = logistic(gates(t).read(s, update)), n = candidate_at(s, t);
    Expr value = (1.0 - z) * n;
    if (previous.defined()) value = value + z * read_state(s, previous);
    h.push_back(s.emit(value));
  }
};

/// Back-propagation through time (Werbos 1990).
class Backward {
 public:
  Backward(const Layer& layer, Tensor states, Tensor gradient) : layer_(layer), states_(states), dy_(gradient) {}

  /// Gradients of projected, candidate_bias, weights (if they were used), and the first state if it is defined.
  std::vector<Tensor> run() {
    const int64_t steps = layer_.steps();
    by_input_.resize(static_cast<size_t>(steps));
    by_state_.resize(static_cast<size_t>(steps));
    for (int64_t t = steps - 1; t >= 0; --t) {
      const auto at = static_cast<size_t>(t);
      by_input_[at] = gate_gradient(t, false);
      by_state_[at] = gate_gradient(t, true);
      if (!layer_.before(t).defined()) break;  // the first step began with zeros
      Tensor through_gates = einsum("bagk,hgk->bah", by_state_[at], layer_.weights);
      Statement s("gru_carry_gradient", layer_.state_shape());
      dh_ = s.emit(hidden_gradient(s, t) * logistic(layer_.gates(t).read(s, update)) + read_state(s, through_gates));
    }
    Tensor by_state = concat(by_state_, 1);
    std::vector<Tensor> out = {concat(by_input_, 1), bias_gradient(by_state)};
    Tensor weights = recurrent_weight_gradient(states_, by_state, layer_.first, by_state_.front());
    if (weights.defined()) out.push_back(weights);
    if (layer_.first.defined()) out.push_back(dh_);
    return out;
  }

 private:
  Expr hidden_gradient(Statement& s, int64_t t) const {
    const Expr above = read_step(s, dy_, t);
    return t + 1 < layer_.steps() ? above + read_state(s, dh_) : above;
  }

  /// [batch, 1, 3, hidden]: of what flows into the gates from the input, or from the previous state; they differ in the
  /// candidate, which sees the state through the reset gate.
  Tensor gate_gradient(int64_t t, bool from_state) const {
    Shape shape = layer_.state_shape();
    shape.insert(shape.begin() + 2, 3);
    Statement s(from_state ? "gru_state_gate_gradient" : "gru_input_gate_gradient", shape);
    const StepGates gates = layer_.gates(t);
    const Expr r = logistic(gates.read(s, reset)), z = logistic(gates.read(s, update)), n = layer_.candidate_at(s, t);
    const Expr dh = hidden_gradient(s, t), at = s.index(2);
    const Expr by_candidate = dh * (1.0 - z) * (1.0 - n * n);
    const Expr by_update = dh * (read_state(s, layer_.before(t)) - n) * z * (1.0 - z);
    const Expr by_reset = by_candidate * layer_.inner(s, t) * r * (1.0 - r);
    return s.emit(select(equal(at, double(reset)), by_reset,
                         select(equal(at, double(update)), by_update, from_state ? by_candidate * r : by_candidate)));
  }

  Tensor bias_gradient(Tensor by_state) const { return sum(slice(by_state, 2, candidate, candidate + 1), {0, 1, 2}); }

  const Layer& layer_;
  Tensor states_, dy_;
  Tensor dh_;  ///< of the state between the current step and the next
  std::vector<Tensor> by_input_, by_state_;
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
  Layer layer{project_inputs(in, w.input, w.bias), w.recurrent, w.candidate_bias, with_time(initial), {}, {}};
  for (int64_t t = 0; t < layer.steps(); ++t) layer.step(t);
  Tensor out = concat(layer.h, 1);
  std::vector<Tensor> inputs = {layer.projected, layer.candidate_bias};
  if (layer.steps() > 1 || layer.first.defined()) inputs.push_back(layer.weights);
  if (layer.first.defined()) inputs.push_back(layer.first);
  Trace::current().set_custom_vjp(
      out, inputs, [layer](const VjpArguments& v) { return Backward(layer, v.output, v.output_gradient).run(); });
  return out;
}

OperatorInfo gru_info() { return {"gru", "A gated recurrent unit over a sequence.", {}}; }

}  // namespace hetsynth
