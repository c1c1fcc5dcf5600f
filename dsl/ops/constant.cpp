#include "dsl/ops/constant.h"

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

PointwiseRule rule(const Shape& shape, double value) { return {.tag = "constant", .body = value, .shape = shape}; }

}  // namespace

Tensor constant(double value, std::source_location where) { return full({}, value, where); }

Tensor full(const std::vector<int64_t>& shape, double value, std::source_location where) {
  return pointwise(rule(shape, value), {}, where);
}

Tensor as_tensor(const Operand& operand) {
  if (operand.is_number) return constant(operand.number, operand.where);
  const Trace& trace = Trace::current();
  if (!operand.tensor.defined() || operand.tensor.node() >= int(trace.program.nodes.size()))
    throw UserError({.where = trace.scope.known() ? trace.scope : location(operand.where),
                     .message = "an argument is no tensor of this model",
                     .expected = "a tensor made by an input, a parameter or an operator",
                     .found = "a default-constructed Tensor",
                     .mend = "give the variable a value before it is used"});
  return operand.tensor;
}

OperatorInfo constant_info() {
  return {"constant",
          "Tensors filled with one number.",
          {{pointwise_operator(rule({}, 2.5)), {}, {}}, {pointwise_operator(rule({3, 4}, -1)), {}, {}}}};
}

}  // namespace hetsynth
