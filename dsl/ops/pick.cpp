#include "dsl/ops/pick.h"

#include <fmt/format.h>

#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

/// A sum over the row with one non-zero term, so that a sharded row gives partial sums.
PointwiseRule rule(int rank) {
  Expr is_label = equal(Expr::input(1), Expr::factor(rank - 1));
  return {.tag = "pick",
          .body = select(is_label, Expr::input(0), Expr(0.0)),
          .lift = {0, 1},
          .integers = {1},
          .reduce = FactorKind::sum,
          .dims = {-1}};
}

}  // namespace

Tensor pick(Operand x, Operand labels) {
  CallScope scope(x.where);
  Tensor row = as_tensor(x), at = as_tensor(labels);
  if (row.rank() != at.rank() + 1)
    fail_call({.tag = "pick",
               .message = fmt::format("labels do not fit: {} for {}", text(at.shape()), text(row.shape())),
               .expected = "labels with one dimension less",
               .found = text(at.shape())},
              {row, at});
  return pointwise(rule(row.rank()), {row, at}, x.where);
}

OperatorInfo pick_info() {
  auto sample = [](const Shape& x, const Shape& labels) {
    return OperatorSample{pointwise_operator(rule(int(x.size()))),
                          {{x, DType::f32}, {labels, DType::i32}},
                          {{}, {0, double(x.back() - 1)}}};
  };
  return {"pick", "One element per row.", {sample({3, 7}, {3}), sample({2, 3, 5}, {2, 3})}};
}

}  // namespace hetsynth
