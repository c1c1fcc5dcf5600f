#include "dsl/ops/rotary.h"

#include <fmt/format.h>

#include <cmath>

#include "dsl/ops/flip.h"
#include "dsl/ops/reshape.h"
#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

/// cos or sin of every position and pair. It has an extent of 1 in all other dimensions, so it broadcasts against x.
PointwiseRule table_rule(bool sine, const Shape& shape, int position_dim, int pair_dim, double base) {
  Expr rate = exp(Expr::factor(pair_dim) * (-std::log(base) / double(shape[pair_dim])));
  Expr angle = Expr::factor(position_dim) * rate;
  return {.tag = sine ? "rotary_sin" : "rotary_cos", .body = sine ? sin(angle) : cos(angle), .shape = shape};
}

/// Inputs: x with its pairs in a dimension of 2, the same with both sides exchanged, cosines and sines.
PointwiseRule turn_rule(int side_dim, bool back) {
  Expr x = Expr::input(0), other = Expr::input(1), c = Expr::input(2), s = Expr::input(3);
  Expr is_first = equal(Expr::factor(side_dim), 0.0);
  return {.tag = back ? "rotary_gradient" : "rotary",
          .body = x * c + other * (back ? select(is_first, s, -s) : select(is_first, -s, s))};
}

}  // namespace

Tensor rotary(Operand x, int position_dim, double base, RotaryPairs pairs) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x);
  int at = checked_call({in}, [&] { return normalize_dim("rotary", position_dim, in.shape()); });
  int64_t width = in.size(-1);
  if (width % 2 != 0 || at == in.rank() - 1)
    fail_call({.tag = "rotary",
               .message = width % 2 ? "the last dimension does not fall into pairs"
                                    : "positions and features are the same dimension",
               .expected = "[..., positions, ..., features] with an even number of features",
               .found = text(in.shape())},
              {in});
  if (!(base > 0))
    fail_call({.tag = "rotary",
               .message = "base is out of range",
               .expected = "more than 0",
               .found = fmt::format("{}", base)},
              {in});
  int side_dim = in.rank() - (pairs == RotaryPairs::halves ? 1 : 0), pair_dim = 2 * in.rank() - 1 - side_dim;
  Shape paired = in.shape();
  paired.push_back(0);
  paired[side_dim] = 2;
  paired[pair_dim] = width / 2;
  Shape table(paired.size(), 1);
  table[at] = in.size(at);
  table[pair_dim] = width / 2;
  Tensor cosines = pointwise(table_rule(false, table, at, pair_dim, base), {});
  Tensor sines = pointwise(table_rule(true, table, at, pair_dim, base), {});
  auto turn = [=](Tensor t, bool back) {
    Shape shape = t.shape();
    Tensor sides = reshape(t, paired);
    return reshape(pointwise(turn_rule(side_dim, back), {sides, flip(sides, side_dim), cosines, sines}), shape);
  };
  Tensor out = turn(in, false);
  Trace::current().set_custom_vjp(
      out, {in}, [=](const VjpArguments& v) { return std::vector<Tensor>{turn(v.output_gradient, true)}; });
  return out;
}

OperatorInfo rotary_info() {
  auto table = [](bool sine) { return pointwise_operator(table_rule(sine, {7, 1, 3}, 0, 2, 10000)); };
  return {
      "rotary",
      "Rotary position embedding.",
      {{table(false), {}, {}},
       {table(true), {}, {}},
       {pointwise_operator(turn_rule(2, false)), floats({{4, 3, 2, 5}, {4, 3, 2, 5}, {4, 1, 1, 5}, {4, 1, 1, 5}}), {}},
       {pointwise_operator(turn_rule(2, true)), floats({{4, 5, 2}, {4, 5, 2}, {4, 5, 1}, {4, 5, 1}}), {}}}};
}

}  // namespace hetsynth
