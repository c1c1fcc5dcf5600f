#include "dsl/ops/flip.h"

#include <fmt/format.h>

#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"
#include "dsl/ops/support/spaces.h"

namespace hetsynth {
namespace {

class Flip final : public Operator {
 public:
  explicit Flip(int dim) : dim_(dim) {}
  std::string_view tag() const override { return "flip"; }
  std::string attributes() const override { return fmt::format("dim {}", dim_); }

  TensorType infer(std::span<const TensorType> inputs) const override {
    normalize_dim("flip", dim_, inputs[0].shape);
    return inputs[0];
  }

  Space space(std::span<const TensorType> inputs, const TensorType& output) const override {
    int dim = normalize_dim("flip", dim_, inputs[0].shape);
    Space space = space_of_result(output);
    space.inputs = {space.output};
    space.inputs[0].dims[dim].terms[0].stride = -1;
    space.inputs[0].dims[dim].offset = output.shape[dim] - 1;
    return space;
  }

  Expr body(std::span<const TensorType>, const TensorType&) const override { return Expr::input(0); }

  std::vector<Tensor> vjp(const VjpArguments& v) const override { return {flip(v.output_gradient, dim_)}; }

 private:
  int dim_;
};

}  // namespace

Tensor flip(Operand x, int dim) { return emit(std::make_shared<Flip>(dim), {as_tensor(x)}, x.where); }

OperatorInfo flip_info() {
  auto sample = [](int dim, const Shape& shape) {
    return OperatorSample{std::make_shared<Flip>(dim), floats({shape}), {}};
  };
  return {"flip", "A dimension in reverse.", {sample(0, {5, 3}), sample(-2, {3, 2, 4}), sample(-1, {4, 7})}};
}

}  // namespace hetsynth
