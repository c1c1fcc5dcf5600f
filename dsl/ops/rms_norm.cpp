#include "dsl/ops/rms_norm.h"

#include <fmt/format.h>

#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

Tensor row_sum(const std::string& tag, const Expr& body, std::vector<Tensor> inputs) {
  return pointwise({.tag = tag, .body = body, .reduce = FactorKind::sum, .dims = {-1}, .drop = std::vector<int>{}},
                   std::move(inputs));
}

/// With h = x r and g = dy gain: dx = r (g - h mean(g h)), dgain = sum over rows of dy h.
std::vector<Tensor> vjp(const VjpArguments& v, Tensor inverse) {
  Tensor x = v.inputs[0], gain = v.inputs[1], dy = v.output_gradient;
  Expr e_dy = Expr::input(0), e_x = Expr::input(1), r = Expr::input(2), e_gain = Expr::input(3), dot = Expr::input(4);
  double share = 1.0 / double(x.size(-1));
  Tensor total = row_sum("rms_norm_dot", e_dy * e_gain * (e_x * r), {dy, x, inverse, gain});
  PointwiseRule by_gain{.tag = "rms_norm_gain_gradient", .body = e_dy * (e_x * r)};
  for (int d = 0; d + 1 < x.rank(); ++d) by_gain.dims.push_back(d);
  if (x.rank() > 1) by_gain.reduce = FactorKind::sum;
  return {pointwise({.tag = "rms_norm_gradient", .body = r * (e_dy * e_gain - e_x * r * (share * dot))},
                    {dy, x, inverse, gain, total}),
          pointwise(by_gain, {dy, x, inverse})};
}

}  // namespace

Tensor rms_norm(Operand x, Operand gain, double eps) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x), g = as_tensor(gain);
  checked_call({in, g}, [&] { require_rank_at_least("rms_norm", 0, {in.shape(), in.dtype()}, 1); });
  if (g.shape() != Shape{in.size(-1)})
    fail_call({.tag = "rms_norm",
               .message = "gain has another width than the tensor",
               .expected = fmt::format("[{}], the last dimension of {}", in.size(-1), text(in.shape())),
               .found = text(g.shape())},
              {in, g});
  double share = 1.0 / double(in.size(-1));
  Tensor squares = row_sum("rms_norm_squares", Expr::input(0) * Expr::input(0), {in});
  Tensor inverse = pointwise({.tag = "rms_norm_scale", .body = 1.0 / sqrt(share * Expr::input(0) + eps)}, {squares});
  Tensor out =
      pointwise({.tag = "rms_norm", .body = Expr::input(0) * Expr::input(1) * Expr::input(2)}, {in, inverse, g});
  Trace::current().set_custom_vjp(out, {in, g}, [=](const VjpArguments& v) { return vjp(v, inverse); });
  return out;
}

OperatorInfo rms_norm_info() { return {"rms_norm", "Root-mean-square normalisation over the last dimension.", {}}; }

}  // namespace hetsynth
