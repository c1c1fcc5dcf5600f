#include "dsl/ops/support/elementwise_loss.h"

#include <fmt/format.h>

#include "dsl/ops/mul.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {

PointwiseRule summed_loss(const std::string& tag, const Expr& body, int rank, CustomVjp vjp) {
  PointwiseRule rule{.tag = tag, .body = body, .vjp = std::move(vjp)};
  if (rank > 0) rule.reduce = FactorKind::sum;
  return rule;
}

Tensor mean_loss(const std::string& tag, const Operand& prediction, const Operand& target,
                 PointwiseRule (*rule)(int rank)) {
  CallScope scope(prediction.where);
  Tensor x = as_tensor(prediction), t = as_tensor(target);
  for (size_t j : {0, 1})
    checked_call({x, t}, [&] { require_dtype(tag, j, {(j ? t : x).shape(), (j ? t : x).dtype()}, DType::f32); });
  if (x.shape() != t.shape())
    fail_call({.tag = tag,
               .message = fmt::format("predictions and targets differ: {} and {}", text(x.shape()), text(t.shape())),
               .expected = "one shape",
               .found = text(t.shape()),
               .mend = "reshape or broadcast one of them"},
              {x, t});
  return pointwise(rule(x.rank()), {x, t}) * (1.0 / double(element_count(x.shape())));
}

}  // namespace hetsynth
