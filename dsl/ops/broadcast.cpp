#include "dsl/ops/broadcast.h"

#include <fmt/format.h>

#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

PointwiseRule rule(const Shape& shape, DType dtype = DType::f32) {
  PointwiseRule rule{.tag = "broadcast", .body = Expr::input(0), .shape = shape};
  if (dtype == DType::i32) rule.integers = {0}, rule.result = DType::i32;
  return rule;
}

}  // namespace

Tensor broadcast(Operand x, const std::vector<int64_t>& shape) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x);
  if (checked_call({in}, [&] { return broadcast_shapes("broadcast", {in.shape(), shape}); }) != shape)
    fail_call({.tag = "broadcast",
               .message = fmt::format("{} does not broadcast to {}", text(in.shape()), text(shape)),
               .expected = "a shape at least as large in every dimension",
               .found = text(shape)},
              {in});
  return pointwise(rule(shape, in.dtype()), {in}, x.where);
}

OperatorInfo broadcast_info() {
  return {"broadcast",
          "Copies along new or unit dimensions.",
          {{pointwise_operator(rule({2, 3, 4})), floats({{4}}), {}},
           {pointwise_operator(rule({2, 3, 5})), floats({{3, 1}}), {}},
           {pointwise_operator(rule({3})), floats({{}}), {}},
           {pointwise_operator(rule({2, 3}, DType::i32)), {{{3}, DType::i32}}, {{-5, 5}}}}};
}

}  // namespace hetsynth
