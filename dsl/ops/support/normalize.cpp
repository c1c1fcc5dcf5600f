#include "dsl/ops/support/normalize.h"

#include <algorithm>

#include "dsl/ops/mean.h"
#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

struct Parts {
  std::string tag;
  std::vector<int> dims;
  int lift;
  double share;  ///< 1 / elements per group
  Tensor mean, scale;
};

/// Sum over the normalised dimensions, which stay with extent 1.
Tensor group_sum(const Parts& p, const std::string& name, const Expr& body, std::vector<Tensor> inputs,
                 std::vector<int> lift = {}) {
  return pointwise({.tag = p.tag + name,
                    .body = body,
                    .lift = std::move(lift),
                    .reduce = FactorKind::sum,
                    .dims = p.dims,
                    .drop = std::vector<int>{}},
                   std::move(inputs));
}

/// With h = (x - mean) scale and g = dy gain: dx = scale (g - mean(g) - h mean(g h)), dgain = sum of dy h, dbias = sum
/// of dy over the dimensions they lack.
std::vector<Tensor> vjp(const VjpArguments& v, const Parts& p) {
  Tensor x = v.inputs[0], gain = v.inputs[1], dy = v.output_gradient;
  Expr e_dy = Expr::input(0), e_x = Expr::input(1), e_mean = Expr::input(2), e_scale = Expr::input(3);
  Expr e_gain = Expr::input(4), sum_g = Expr::input(5), sum_gh = Expr::input(6);
  Expr h = (e_x - e_mean) * e_scale;
  std::vector<int> others;
  int first = x.rank() - p.lift - gain.rank();
  for (int d = 0; d < x.rank(); ++d)
    if (d < first || d >= first + gain.rank()) others.push_back(d);
  auto by_gain = [&](const std::string& name, const Expr& body, std::vector<Tensor> inputs) {
    return pointwise({.tag = p.tag + name, .body = body, .reduce = FactorKind::sum, .dims = others}, std::move(inputs));
  };
  Tensor total_g = group_sum(p, "_sum", Expr::input(0) * Expr::input(1), {dy, gain}, {0, p.lift});
  Tensor total_gh = group_sum(p, "_dot", e_dy * e_gain * h, {dy, x, p.mean, p.scale, gain}, {0, 0, 0, 0, p.lift});
  Tensor dx = pointwise({.tag = p.tag + "_gradient",
                         .body = e_scale * (e_dy * e_gain - p.share * sum_g - h * (p.share * sum_gh)),
                         .lift = {0, 0, 0, 0, p.lift}},
                        {dy, x, p.mean, p.scale, gain, total_g, total_gh});
  return {dx, by_gain("_gain_gradient", e_dy * h, {dy, x, p.mean, p.scale}),
          by_gain("_bias_gradient", Expr::input(0), {dy})};
}

}  // namespace

Normalized normalize(const std::string& tag, Tensor x, const std::vector<int>& dims, Tensor gain, Tensor bias, int lift,
                     double eps) {
  Normalized out;
  out.count = 1;
  for (int d : dims) out.count *= x.size(d);
  Parts p{tag, dims, lift, 1.0 / double(out.count), {}, {}};
  Expr e_x = Expr::input(0), e_mean = Expr::input(1);
  out.mean = p.mean = mean(x, dims, true);
  out.squares = group_sum(p, "_squares", (e_x - e_mean) * (e_x - e_mean), {x, p.mean});
  p.scale = pointwise({.tag = tag + "_scale", .body = 1.0 / sqrt(p.share * Expr::input(0) + eps)}, {out.squares});
  out.out = pointwise({.tag = tag,
                       .body = (e_x - e_mean) * Expr::input(2) * Expr::input(3) + Expr::input(4),
                       .lift = {0, 0, 0, lift, lift}},
                      {x, p.mean, p.scale, gain, bias});
  Trace::current().set_custom_vjp(out.out, {x, gain, bias}, [p](const VjpArguments& v) { return vjp(v, p); });
  return out;
}

}  // namespace hetsynth
