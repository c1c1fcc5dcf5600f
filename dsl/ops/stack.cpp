#include "dsl/ops/stack.h"

#include <fmt/format.h>

#include "dsl/ops/concat.h"
#include "dsl/ops/reshape.h"
#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {

Tensor stack(const std::vector<Tensor>& tensors, int dim, std::source_location where) {
  CallScope scope(where);
  if (tensors.empty())
    fail_call({.tag = "stack",
               .message = "there is nothing to put side by side",
               .expected = "one tensor or more",
               .found = "none",
               .mend = "give it the tensors: stack({a, b})"},
              {});
  const auto type_of = [&](Tensor t) {
    t = as_tensor(Operand(t, where));
    return TensorType{t.shape(), t.dtype()};
  };
  const TensorType first = type_of(tensors[0]);
  for (Tensor t : tensors)
    if (const TensorType type = type_of(t); !(type == first))
      fail_call({.tag = "stack",
                 .message = "the tensors differ in shape or type",
                 .expected = "tensors like " + text(first),
                 .found = text(type),
                 .mend = "concat(tensors, dim) joins tensors of different extent along a dimension"},
                tensors);
  Shape with_unit = first.shape;
  with_unit.push_back(1);
  const int at = checked_call(tensors, [&] { return normalize_dim("stack", dim, with_unit); });
  with_unit = first.shape;
  with_unit.insert(with_unit.begin() + at, 1);
  std::vector<Tensor> parts;
  for (Tensor t : tensors) parts.push_back(reshape(Operand(t, where), with_unit));
  return parts.size() == 1 ? parts[0] : concat(parts, at, where);
}

Tensor stack(std::initializer_list<Operand> tensors, int dim) {
  std::vector<Tensor> list;
  for (const Operand& operand : tensors) list.push_back(as_tensor(operand));
  return stack(list, dim, tensors.size() ? tensors.begin()->where : std::source_location::current());
}

OperatorInfo stack_info() { return {"stack", "Tensors side by side along a new dimension.", {}}; }

}  // namespace hetsynth
