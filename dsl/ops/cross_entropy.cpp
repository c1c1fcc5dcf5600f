#include "dsl/ops/cross_entropy.h"

#include <fmt/format.h>

#include "dsl/ops/max.h"
#include "dsl/ops/mul.h"
#include "dsl/ops/pick.h"
#include "dsl/ops/sum.h"
#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

/// dlogits = (softmax - one-hot of the label) / N times the gradient of the loss.
std::vector<Tensor> vjp(const VjpArguments& v, Tensor largest, Tensor total) {
  Tensor logits = v.inputs[0], labels = v.inputs[1];
  Expr is_label = equal(Expr::input(3), Expr::factor(logits.rank() - 1));
  Expr probability = exp(Expr::input(0) - Expr::input(1)) / Expr::input(2);
  double share = double(logits.size(-1)) / double(element_count(logits.shape()));
  return {pointwise({.tag = "cross_entropy_gradient",
                     .body = (probability - select(is_label, 1.0, 0.0)) * (share * Expr::input(4)),
                     .lift = {0, 1, 1, 1, 0},
                     .integers = {3}},
                    {logits, largest, total, labels, v.output_gradient}),
          Tensor()};
}

void check(Tensor logits, Tensor labels) {
  checked_call({logits, labels}, [&] {
    require_dtype("cross_entropy", 0, {logits.shape(), logits.dtype()}, DType::f32);
    require_dtype("cross_entropy", 1, {labels.shape(), labels.dtype()}, DType::i32);
    require_rank_at_least("cross_entropy", 0, {logits.shape(), logits.dtype()}, 1);
  });
  Shape positions = logits.shape();
  positions.pop_back();
  if (labels.shape() != positions)
    fail_call(
        {.tag = "cross_entropy",
         .message = fmt::format("labels do not fit logits: {} and {}", text(labels.shape()), text(logits.shape())),
         .expected = "labels " + text(positions) + ", one for every row of logits",
         .found = text(labels.shape())},
        {logits, labels});
  require_index_range("cross_entropy", labels, logits.size(-1), "a row of logits");
}

}  // namespace

Tensor cross_entropy(Operand logits, Operand labels) {
  CallScope scope(logits.where);
  Tensor x = as_tensor(logits), y = as_tensor(labels);
  check(x, y);
  Tensor largest = max(x, -1);
  Tensor total = pointwise({.tag = "exp_sum",
                            .body = exp(Expr::input(0) - Expr::input(1)),
                            .lift = {0, 1},
                            .reduce = FactorKind::sum,
                            .dims = {-1}},
                           {x, largest});
  Tensor chosen = pick(x, y);
  PointwiseRule nll{.tag = "nll_sum", .body = log(Expr::input(0)) + Expr::input(1) - Expr::input(2)};
  if (y.rank() > 0) nll.reduce = FactorKind::sum;
  Tensor loss = pointwise(nll, {total, largest, chosen}) * (1.0 / double(element_count(y.shape())));
  Trace::current().set_custom_vjp(loss, {x, y}, [=](const VjpArguments& v) { return vjp(v, largest, total); });
  return loss;
}

OperatorInfo cross_entropy_info() { return {"cross_entropy", "Mean negative log likelihood of labels.", {}}; }

}  // namespace hetsynth
