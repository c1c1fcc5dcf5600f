#include "dsl/ops/dropout.h"

#include "dsl/ir/evaluation.h"
#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

PointwiseRule rule(double p, int stream) {
  Expr is_dropped = less(Expr::random(stream), Expr(p));
  return {.tag = "dropout", .body = select(is_dropped, Expr(0.0), Expr::input(0) * (1 / (1 - p)))};
}

}  // namespace

Tensor dropout(Operand x, double p) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x);
  if (!(p >= 0 && p < 1))
    fail_call({.tag = "dropout",
               .message = "the probability is out of range",
               .expected = "0 <= p < 1",
               .found = std::to_string(p)},
              {in});
  if (p == 0 || is_evaluation(Trace::current())) return in;
  return pointwise(rule(p, Trace::current().random_streams++), {in}, x.where);
}

OperatorInfo dropout_info() {
  return {"dropout",
          "Random zeroing of elements.",
          {{pointwise_operator(rule(0.5, 0)), floats({{5, 7}}), {}},
           {pointwise_operator(rule(0.25, 3)), floats({{2, 3, 4}}), {}}}};
}

}  // namespace hetsynth
