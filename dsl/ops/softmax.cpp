#include "dsl/ops/softmax.h"

#include "dsl/ops/div.h"
#include "dsl/ops/exp.h"
#include "dsl/ops/max.h"
#include "dsl/ops/sub.h"
#include "dsl/ops/sum.h"
#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

/// dx = y (dy - sum(dy y)): neither the maximum nor the exponentials are needed again.
std::vector<Tensor> vjp(const VjpArguments& v, int dim) {
  Expr y = Expr::input(0), dy = Expr::input(1), total = Expr::input(2);
  Tensor dot = pointwise(
      {.tag = "softmax_dot", .body = y * dy, .reduce = FactorKind::sum, .dims = {dim}, .drop = std::vector<int>{}},
      {v.output, v.output_gradient});
  return {pointwise({.tag = "softmax_gradient", .body = y * (dy - total)}, {v.output, v.output_gradient, dot})};
}

}  // namespace

Tensor softmax(Operand x, int dim) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x);
  checked_call({in}, [&] { normalize_dim("softmax", dim, in.shape()); });
  Tensor e = exp(in - max(in, dim, true));
  Tensor out = e / sum(e, dim, true);
  Trace::current().set_custom_vjp(out, {in}, [dim](const VjpArguments& v) { return vjp(v, dim); });
  return out;
}

OperatorInfo softmax_info() { return {"softmax", "Softmax over one dimension.", {}}; }

}  // namespace hetsynth
