#include "dsl/ops/log_softmax.h"

#include "dsl/ops/exp.h"
#include "dsl/ops/log.h"
#include "dsl/ops/max.h"
#include "dsl/ops/sub.h"
#include "dsl/ops/sum.h"
#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

/// dx = dy - e^y sum(dy).
std::vector<Tensor> vjp(const VjpArguments& v, int dim) {
  Expr y = Expr::input(0), dy = Expr::input(1), total = Expr::input(2);
  Tensor all = sum(v.output_gradient, dim, true);
  return {pointwise({.tag = "log_softmax_gradient", .body = dy - exp(y) * total}, {v.output, v.output_gradient, all})};
}

}  // namespace

Tensor log_softmax(Operand x, int dim) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x);
  checked_call({in}, [&] { normalize_dim("log_softmax", dim, in.shape()); });
  Tensor shifted = in - max(in, dim, true);
  Tensor out = shifted - log(sum(exp(shifted), dim, true));
  Trace::current().set_custom_vjp(out, {in}, [dim](const VjpArguments& v) { return vjp(v, dim); });
  return out;
}

OperatorInfo log_softmax_info() { return {"log_softmax", "Logarithm of the softmax over one dimension.", {}}; }

}  // namespace hetsynth
