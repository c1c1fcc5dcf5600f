#include "dsl/ops/scatter_add.h"

#include <fmt/format.h>

#include "dsl/ops/gather.h"
#include "dsl/ops/support/line_lookup.h"
#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

class ScatterAdd final : public Operator {
 public:
  ScatterAdd(int dim, int64_t size) : dim_(dim), size_(size) {}
  std::string_view tag() const override { return "scatter_add"; }
  std::string attributes() const override { return fmt::format("dim {} of {}", dim_, size_); }

  TensorType infer(std::span<const TensorType> inputs) const override {
    require_dtype("scatter_add", 0, inputs[0], DType::f32);
    require_dtype("scatter_add", 1, inputs[1], DType::i32);
    const int dim = normalize_dim("scatter_add", dim_, inputs[0].shape);
    if (inputs[1].shape != inputs[0].shape)
      throw UserError({.tag = "scatter_add",
                       .message = fmt::format("every value needs an index: indices {} for values {}",
                                              text(inputs[1].shape), text(inputs[0].shape)),
                       .expected = "indices " + text(inputs[0].shape),
                       .found = text(inputs[1]),
                       .mend = full_index_mend(dim, inputs[0].shape, inputs[1].shape)});
    TensorType out = inputs[0];
    out.shape[size_t(normalize_dim("scatter_add", dim_, out.shape))] = size_;
    return out;
  }

  Space space(std::span<const TensorType> inputs, const TensorType&) const override {
    return line_lookup_space(inputs[0].shape, normalize_dim("scatter_add", dim_, inputs[0].shape), size_, true);
  }

  Expr body(std::span<const TensorType> inputs, const TensorType&) const override {
    return line_lookup_body(inputs[0].shape.size());
  }

  std::vector<Tensor> vjp(const VjpArguments& v) const override {
    return {gather(v.output_gradient, dim_, v.inputs[1]), Tensor()};
  }

 private:
  int dim_;
  int64_t size_;
};

}  // namespace

Tensor scatter_add(Operand values, int dim, Operand indices, int64_t size) {
  CallScope scope(values.where);
  Tensor in = as_tensor(values), at = as_tensor(indices);
  Tensor out = emit(std::make_shared<ScatterAdd>(dim, size), {in, at}, values.where);
  require_index_range("scatter_add", at, size, "the result");
  return out;
}

OperatorInfo scatter_add_info() {
  auto sample = [](int dim, int64_t size, const Shape& shape) {
    return OperatorSample{std::make_shared<ScatterAdd>(dim, size),
                          {{shape, DType::f32}, {shape, DType::i32}},
                          {{}, {0, double(size - 1)}}};
  };
  return {"scatter_add",
          "Elements added up by index along a dimension.",
          {sample(-1, 4, {3, 7}), sample(0, 3, {5, 2, 3}), sample(1, 6, {2, 4, 3}), sample(0, 5, {8})}};
}

}  // namespace hetsynth
