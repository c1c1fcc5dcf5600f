#include "dsl/ops/support/recurrent.h"

#include <fmt/format.h>

#include "dsl/ops/add.h"
#include "dsl/ops/einsum.h"
#include "dsl/ops/reshape.h"
#include "dsl/ops/slice.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

DimIndex last(const Statement& statement, int rank) { return statement.dim(rank - 1); }

}  // namespace

CellSizes check_cell(std::string_view tag, int gates, int rank, Tensor x, Tensor input, Tensor recurrent, Tensor bias,
                     const std::vector<Tensor>& states) {
  std::vector<Tensor> all = {x, input, recurrent, bias};
  for (Tensor state : states) {
    if (state.defined()) all.push_back(state);
  }
  const auto fail = [&](const std::string& message, const std::string& expected, Tensor found) {
    fail_call({.tag = std::string(tag), .message = message, .expected = expected, .found = text(found.shape())}, all);
  };
  for (size_t j = 0; j < all.size(); ++j)
    checked_call(all, [&] { require_dtype(tag, j, {all[j].shape(), all[j].dtype()}, DType::f32); });
  if (x.rank() != rank)
    fail("the input has the wrong rank", rank == 3 ? "[batch, time, inputs]" : "[batch, inputs]", x);
  const CellSizes sizes{x.size(0), x.size(-1), recurrent.rank() == 3 ? recurrent.size(0) : 0};
  if (recurrent.shape() != Shape{sizes.hidden, gates, sizes.hidden})
    fail("the recurrent weights have the wrong shape", fmt::format("[hidden, {}, hidden]", gates), recurrent);
  if (input.shape() != Shape{sizes.inputs, gates, sizes.hidden})
    fail("the input weights have the wrong shape", fmt::format("[{}, {}, {}]", sizes.inputs, gates, sizes.hidden),
         input);
  if (bias.shape() != Shape{gates, sizes.hidden})
    fail("the bias has the wrong shape", fmt::format("[{}, {}]", gates, sizes.hidden), bias);
  for (Tensor state : states) {
    if (state.defined() && state.shape() != Shape{sizes.batch, sizes.hidden})
      fail("a state has the wrong shape", fmt::format("[{}, {}]", sizes.batch, sizes.hidden), state);
  }
  return sizes;
}

Tensor project_inputs(Tensor x, Tensor input, Tensor bias) {
  return einsum(x.rank() == 3 ? "bti,igh->btgh" : "bi,igh->bgh", x, input) + bias;
}

namespace {

DimIndex at(const TurnPosition& position) { return {.offset = position.offset, .per_turn = position.per_turn}; }

}  // namespace

Expr StepGates::read_projected(Statement& s, const DimIndex& gate) const {
  return s.read(projected, {s.dim(0), at(position), gate, last(s, s.rank())});
}

Expr StepGates::read_recurrent(Statement& s, const DimIndex& gate) const {
  return s.read(recurrent, {s.dim(0), gate, last(s, s.rank())});
}

Expr read_state(Statement& s, Tensor state) { return s.read(state, {s.dim(0), last(s, s.rank())}); }

Expr read_step(Statement& s, Tensor sequence, const TurnPosition& position) {
  return s.read(sequence, {s.dim(0), at(position), last(s, s.rank())});
}

Tensor recurrent_weight_gradient(Tensor states, Tensor gates, Tensor first) {
  const int64_t steps = gates.size(1);
  Tensor at_first = reshape(slice(gates, 1, 0, 1), {gates.size(0), gates.size(2), gates.size(3)});
  Tensor of_first = einsum("bh,bgk->hgk", first, at_first);
  if (steps == 1) return of_first;
  return einsum("bth,btgk->hgk", slice(states, 1, 0, steps - 1), slice(gates, 1, 1, steps)) + of_first;
}

}  // namespace hetsynth
