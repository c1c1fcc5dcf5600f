#include "dsl/ops/logsumexp.h"

#include <algorithm>

#include "dsl/ops/add.h"
#include "dsl/ops/exp.h"
#include "dsl/ops/log.h"
#include "dsl/ops/max.h"
#include "dsl/ops/reshape.h"
#include "dsl/ops/sub.h"
#include "dsl/ops/sum.h"
#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

/// dx = dy e^(x - y), y being the result: neither the maximum nor the sum is needed again.
std::vector<Tensor> vjp(const VjpArguments& v, const Shape& kept) {
  const Expr x = Expr::input(0), y = Expr::input(1), dy = Expr::input(2);
  return {pointwise({.tag = "logsumexp_gradient", .body = dy * exp(x - y)},
                    {v.inputs[0], reshape(v.output, kept), reshape(v.output_gradient, kept)})};
}

}  // namespace

Tensor logsumexp(Operand x, DimList dims, bool keepdim) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x);
  const std::vector<int> reduced = checked_call({in}, [&] {
    require_dtype("logsumexp", 0, {in.shape(), in.dtype()}, DType::f32);
    return normalize_dims("logsumexp", dims.dims, in.shape());
  });
  Shape kept = in.shape(), dropped;
  for (size_t d = 0; d < kept.size(); ++d) {
    const bool gone = std::ranges::count(reduced, int(d)) > 0;
    if (!gone) dropped.push_back(kept[d]);
    if (gone) kept[d] = 1;
  }
  if (reduced.empty()) return in;
  Tensor largest = max(in, reduced, true);
  Tensor out = log(sum(exp(in - largest), reduced, true)) + largest;
  if (!keepdim) out = reshape(out, dropped);
  Trace::current().set_custom_vjp(out, {in}, [kept](const VjpArguments& v) { return vjp(v, kept); });
  return out;
}

OperatorInfo logsumexp_info() { return {"logsumexp", "Logarithm of a sum of exponentials.", {}}; }

}  // namespace hetsynth
