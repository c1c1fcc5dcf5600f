#include "dsl/ops/gather.h"

#include "dsl/ops/scatter_add.h"
#include "dsl/ops/support/line_lookup.h"
#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

class Gather final : public Operator {
 public:
  explicit Gather(int dim) : dim_(dim) {}
  std::string_view tag() const override { return "gather"; }
  std::string attributes() const override { return "dim " + std::to_string(dim_); }

  TensorType infer(std::span<const TensorType> inputs) const override {
    require_dtype("gather", 0, inputs[0], DType::f32);
    require_line_indices("gather", dim_, inputs[0].shape, inputs[1]);
    return {inputs[1].shape, DType::f32};
  }

  Space space(std::span<const TensorType> inputs, const TensorType&) const override {
    return line_lookup_space(inputs[1].shape, normalize_dim("gather", dim_, inputs[0].shape),
                             inputs[0].shape[size_t(normalize_dim("gather", dim_, inputs[0].shape))], false);
  }

  Expr body(std::span<const TensorType> inputs, const TensorType&) const override {
    return line_lookup_body(inputs[0].shape.size());
  }

  std::vector<Tensor> vjp(const VjpArguments& v) const override {
    return {scatter_add(v.output_gradient, dim_, v.inputs[1], v.inputs[0].size(dim_)), Tensor()};
  }

 private:
  int dim_;
};

}  // namespace

Tensor gather(Operand x, int dim, Operand indices) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x), at = as_tensor(indices);
  Tensor out = emit(std::make_shared<Gather>(dim), {in, at}, x.where);
  require_index_range("gather", at, in.size(dim), "the dimension");
  return out;
}

OperatorInfo gather_info() {
  auto sample = [](int dim, const Shape& x, const Shape& indices) {
    int at = dim < 0 ? dim + int(x.size()) : dim;
    return OperatorSample{
        std::make_shared<Gather>(dim), {{x, DType::f32}, {indices, DType::i32}}, {{}, {0, double(x[size_t(at)] - 1)}}};
  };
  return {"gather",
          "Elements picked along a dimension.",
          {sample(-1, {3, 7}, {3, 4}), sample(0, {5, 2, 3}, {4, 2, 3}), sample(1, {2, 6, 3}, {2, 1, 3}),
           sample(0, {5}, {7})}};
}

}  // namespace hetsynth
