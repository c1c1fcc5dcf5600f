#include "dsl/ops/one_hot.h"

#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

PointwiseRule rule(Shape shape, int64_t classes) {
  Expr is_class = equal(Expr::input(0), Expr::factor(int(shape.size())));
  shape.push_back(classes);
  return {.tag = "one_hot", .body = is_class, .lift = {1}, .integers = {0}, .shape = shape};
}

}  // namespace

Tensor one_hot(Operand indices, int64_t classes) {
  CallScope scope(indices.where);
  Tensor in = as_tensor(indices);
  require_index_range("one_hot", in, classes, "a row");
  return pointwise(rule(in.shape(), classes), {in}, indices.where);
}

OperatorInfo one_hot_info() {
  auto sample = [](const Shape& indices, int64_t classes) {
    return OperatorSample{
        pointwise_operator(rule(indices, classes)), {{indices, DType::i32}}, {{0, double(classes - 1)}}};
  };
  return {"one_hot", "Indices as unit vectors.", {sample({4}, 5), sample({2, 3}, 7), sample({}, 3)}};
}

}  // namespace hetsynth
