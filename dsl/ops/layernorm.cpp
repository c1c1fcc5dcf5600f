#include "dsl/ops/layernorm.h"

#include <fmt/format.h>

#include "dsl/ops/mean.h"
#include "dsl/ops/sum.h"
#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

/// Sum over the last dimension, which stays with extent 1.
Tensor row_sum(const std::string& tag, const Expr& body, std::vector<Tensor> inputs) {
  return pointwise({.tag = tag, .body = body, .reduce = FactorKind::sum, .dims = {-1}, .drop = std::vector<int>{}},
                   std::move(inputs));
}

/// With h = (x - mean) r and g = dy gain: dx = r (g - mean(g) - h mean(g h)), dgain = sum over rows of dy h, dbias =
/// sum over rows of dy.
std::vector<Tensor> vjp(const VjpArguments& v, Tensor center, Tensor inverse) {
  Tensor x = v.inputs[0], gain = v.inputs[1], dy = v.output_gradient;
  Expr e_dy = Expr::input(0), e_x = Expr::input(1), e_center = Expr::input(2), e_inverse = Expr::input(3);
  Expr e_gain = Expr::input(4), sum_g = Expr::input(5), sum_gh = Expr::input(6);
  Expr h = (e_x - e_center) * e_inverse;
  double share = 1.0 / double(x.size(-1));
  Tensor total_g = row_sum("layernorm_sum", Expr::input(0) * Expr::input(1), {dy, gain});
  Tensor total_gh = row_sum("layernorm_dot", e_dy * e_gain * h, {dy, x, center, inverse, gain});
  std::vector<int> rows;
  for (int d = 0; d + 1 < x.rank(); ++d) rows.push_back(d);
  PointwiseRule by_gain{.tag = "layernorm_gain_gradient", .body = e_dy * h};
  if (!rows.empty()) by_gain.reduce = FactorKind::sum, by_gain.dims = rows;
  return {pointwise(
              {.tag = "layernorm_gradient", .body = e_inverse * (e_dy * e_gain - share * sum_g - h * (share * sum_gh))},
              {dy, x, center, inverse, gain, total_g, total_gh}),
          pointwise(by_gain, {dy, x, center, inverse}), rows.empty() ? dy : sum(dy, rows)};
}

void check(Tensor x, Tensor gain, Tensor bias) {
  checked_call({x, gain, bias}, [&] { require_rank_at_least("layernorm", 0, {x.shape(), x.dtype()}, 1); });
  for (Tensor t : {gain, bias})
    if (t.shape() != Shape{x.size(-1)})
      fail_call(
          {.tag = "layernorm",
           .message = fmt::format("{} has another width than the tensor", t.node() == gain.node() ? "gain" : "bias"),
           .expected = fmt::format("[{}], the last dimension of {}", x.size(-1), text(x.shape())),
           .found = text(t.shape())},
          {x, gain, bias});
}

}  // namespace

Tensor layernorm(Operand x, Operand gain, Operand bias, double eps) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x), g = as_tensor(gain), b = as_tensor(bias);
  check(in, g, b);
  double share = 1.0 / double(in.size(-1));
  Expr x_ = Expr::input(0), center_ = Expr::input(1);
  Tensor center = mean(in, -1, true);
  Tensor squares = row_sum("layernorm_squares", (x_ - center_) * (x_ - center_), {in, center});
  Tensor inverse = pointwise({.tag = "layernorm_scale", .body = 1.0 / sqrt(share * Expr::input(0) + eps)}, {squares});
  Tensor out =
      pointwise({.tag = "layernorm", .body = (x_ - center_) * Expr::input(2) * Expr::input(3) + Expr::input(4)},
                {in, center, inverse, g, b});
  Trace::current().set_custom_vjp(out, {in, g, b}, [=](const VjpArguments& v) { return vjp(v, center, inverse); });
  return out;
}

OperatorInfo layernorm_info() { return {"layernorm", "Layer normalisation over the last dimension.", {}}; }

}  // namespace hetsynth
