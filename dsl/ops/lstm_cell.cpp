#include "dsl/ops/lstm_cell.h"

#include <cmath>

#include "dsl/include/hetsynth/model.h"
#include "dsl/ops/add.h"
#include "dsl/ops/einsum.h"
#include "dsl/ops/support/recurrent.h"

namespace hetsynth {
namespace {

enum Gate { input_gate, forget_gate, candidate, output_gate };

/// z [batch, 4, hidden] at a gate; the statement's last dimension is the hidden features.
Expr gate(Statement& s, Tensor z, const DimIndex& at) { return s.read(z, {s.dim(0), at, s.dim(s.rank() - 1)}); }
Expr gate(Statement& s, Tensor z, Gate at) { return gate(s, z, Statement::fixed(at)); }

/// A tensor [batch, hidden]; 0 if it is not defined.
Expr state(Statement& s, Tensor t) { return t.defined() ? s.read(t, {s.dim(0), s.dim(s.rank() - 1)}) : Expr(0.0); }

Tensor next_cell(Tensor z, Tensor c) {
  Statement s("lstm_cell_state", {z.size(0), z.size(2)});
  Expr kept = c.defined() ? logistic(gate(s, z, forget_gate)) * state(s, c) : Expr(0.0);
  const Expr fresh = logistic(gate(s, z, input_gate)) * tanh(gate(s, z, candidate));
  return s.emit(c.defined() ? kept + fresh : fresh);
}

/// With i, f, g as above and dc the gradient of c': dz_i = dc g i (1 - i), dz_f = dc c f (1 - f), dz_g = dc i (1 -
/// g^2); the gradient of c is dc f.
std::vector<Tensor> next_cell_vjp(Tensor z, Tensor c, Tensor gradient) {
  Statement s("lstm_cell_state_gradient", z.shape());
  const Expr i = logistic(gate(s, z, input_gate)), g = tanh(gate(s, z, candidate)), dc = state(s, gradient);
  Expr by_forget = 0.0;
  if (c.defined()) {
    const Expr f = logistic(gate(s, z, forget_gate));
    by_forget = state(s, c) * f * (1.0 - f);
  }
  const Expr at = s.index(1);
  const Expr factor = select(
      equal(at, double(input_gate)), g * i * (1.0 - i),
      select(equal(at, double(forget_gate)), by_forget, select(equal(at, double(candidate)), i * (1.0 - g * g), 0.0)));
  std::vector<Tensor> out = {s.emit(dc * factor)};
  if (!c.defined()) return out;
  Statement carry("lstm_cell_carry_gradient", c.shape());
  out.push_back(carry.emit(state(carry, gradient) * logistic(gate(carry, z, forget_gate))));
  return out;
}

Tensor next_hidden(Tensor z, Tensor c) {
  Statement s("lstm_cell_output", c.shape());
  return s.emit(logistic(gate(s, z, output_gate)) * tanh(state(s, c)));
}

std::vector<Tensor> next_hidden_vjp(Tensor z, Tensor c, Tensor gradient) {
  Statement gates("lstm_cell_output_gradient", z.shape());
  const Expr o = logistic(gate(gates, z, output_gate));
  const Expr value = state(gates, gradient) * tanh(state(gates, c)) * o * (1.0 - o);
  Tensor dz = gates.emit(select(equal(gates.index(1), double(output_gate)), value, 0.0));
  Statement cell("lstm_cell_hidden_gradient", c.shape());
  const Expr t = tanh(state(cell, c));
  return {dz, cell.emit(state(cell, gradient) * logistic(gate(cell, z, output_gate)) * (1.0 - t * t))};
}

}  // namespace

LstmWeights lstm_weights(const std::string& name, int64_t inputs, int64_t hidden, std::source_location where) {
  const Init init = uniform(1 / std::sqrt(double(hidden > 0 ? hidden : 1)));
  return {parameter(name + ".input", {inputs, 4, hidden}, init, where),
          parameter(name + ".recurrent", {hidden, 4, hidden}, init, where),
          parameter(name + ".bias", {4, hidden}, init, where)};
}

LstmState lstm_cell(Operand x, const LstmState& before, const LstmWeights& w) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x), c = before.c;
  check_cell("lstm_cell", 4, 2, in, w.input, w.recurrent, w.bias, {before.h, before.c});
  Tensor z = project_inputs(in, w.input, w.bias);
  if (before.h.defined()) z = z + einsum("bh,hgk->bgk", before.h, w.recurrent);
  LstmState out;
  Trace& trace = Trace::current();
  out.c = next_cell(z, c);
  trace.set_custom_vjp(out.c, c.defined() ? std::vector<Tensor>{z, c} : std::vector<Tensor>{z},
                       [=](const VjpArguments& v) { return next_cell_vjp(z, c, v.output_gradient); });
  out.h = next_hidden(z, out.c);
  trace.set_custom_vjp(out.h, {z, out.c}, [z, cell = out.c](const VjpArguments& v) {
    return next_hidden_vjp(z, cell, v.output_gradient);
  });
  return out;
}

OperatorInfo lstm_cell_info() { return {"lstm_cell", "One step of a long short-term memory.", {}}; }

}  // namespace hetsynth
