#include "dsl/ops/causal_mask.h"

#include <fmt/format.h>

#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

constexpr double hidden_score = -1e9;  ///< finite: a fully hidden row still has a softmax

PointwiseRule rule(int rank) {
  Expr is_future = less(Expr::factor(rank - 2), Expr::factor(rank - 1));
  return {.tag = "causal_mask", .body = select(is_future, hidden_score, Expr::input(0))};
}

}  // namespace

Tensor causal_mask(Operand scores) {
  CallScope scope(scores.where);
  Tensor x = as_tensor(scores);
  checked_call({x}, [&] { require_rank_at_least("causal_mask", 0, {x.shape(), x.dtype()}, 2); });
  if (x.size(-1) != x.size(-2))
    fail_call({.tag = "causal_mask",
               .message = "as many keys as queries are needed",
               .expected = fmt::format("[..., {0}, {0}]", x.size(-2)),
               .found = text(x.shape()),
               .mend = "scores are queries by keys: einsum(\"bthd,bshd->bhts\", q, k)"},
              {x});
  return pointwise(rule(x.rank()), {x}, scores.where);
}

OperatorInfo causal_mask_info() {
  return {
      "causal_mask",
      "Hides the future from attention scores.",
      {{pointwise_operator(rule(2)), floats({{5, 5}}), {}}, {pointwise_operator(rule(4)), floats({{2, 3, 4, 4}}), {}}}};
}

}  // namespace hetsynth
