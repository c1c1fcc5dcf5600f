#include "dsl/ops/alternation.h"

#include "dsl/ops/support/alternation.h"
#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

PointwiseRule due_rule(const Alternation& of) { return {.tag = "group_is_due", .body = is_due(of)}; }

/// Inputs: due, next, before.
PointwiseRule if_due_rule() {
  return {.tag = "if_due", .body = select(less(0.0, Expr::input(0)), Expr::input(1), Expr::input(2))};
}

}  // namespace

Tensor group_is_due(const Alternation& of, std::source_location where) { return pointwise(due_rule(of), {}, where); }

Tensor if_due(Operand due, Operand next, Operand before) {
  return pointwise(if_due_rule(), {as_tensor(due), as_tensor(next), as_tensor(before)}, due.where);
}

OperatorInfo alternation_info() {
  const OperatorSample::Domain flag{-1, 1};
  return {"alternation",
          "Updates that take effect in the steps of a group of parameters.",
          {{pointwise_operator(due_rule({1, 2, 5})), {}, {}},
           {pointwise_operator(if_due_rule()), floats({{}, {2, 3}, {2, 3}}), {flag}}}};
}

}  // namespace hetsynth
