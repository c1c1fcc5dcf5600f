#include "dsl/ops/transpose.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

class Transpose final : public Operator {
 public:
  explicit Transpose(std::vector<int> order) : order_(std::move(order)) {}
  std::string_view tag() const override { return "transpose"; }
  std::string attributes() const override { return fmt::format("{}", fmt::join(order_, ",")); }

  TensorType infer(std::span<const TensorType> inputs) const override {
    const Shape& shape = inputs[0].shape;
    if (order_.size() != shape.size() ||
        (!shape.empty() && normalize_dims("transpose", order_, shape).size() != shape.size()))
      throw UserError({.tag = "transpose",
                       .message = "the order must name every dimension once",
                       .expected = fmt::format("{} dimensions", shape.size()),
                       .found = fmt::format("{{{}}} for {}", fmt::join(order_, ","), text(shape))});
    TensorType out{{}, inputs[0].dtype};
    for (int d : front_order()) out.shape.push_back(shape[d]);
    return out;
  }

  Space space(std::span<const TensorType> inputs, const TensorType&) const override {
    Space space;
    Access in;
    for (size_t d = 0; d < order_.size(); ++d)
      in.dims.push_back(index_by(space.add_factor(fmt::format("i{}", d), inputs[0].shape[d], FactorKind::parallel)));
    for (int d : front_order()) space.output.dims.push_back(in.dims[d]);
    space.inputs = {in};
    return space;
  }

  Expr body(std::span<const TensorType>, const TensorType&) const override { return Expr::input(0); }

  std::vector<Tensor> vjp(const VjpArguments& v) const override {
    std::vector<int> forward = front_order(), back(forward.size());
    for (size_t d = 0; d < forward.size(); ++d) back[forward[d]] = int(d);
    return {transpose(v.output_gradient, back)};
  }

 private:
  std::vector<int> front_order() const {
    std::vector<int> out;
    for (int d : order_) out.push_back(d < 0 ? d + int(order_.size()) : d);
    return out;
  }

  std::vector<int> order_;
};

}  // namespace

Tensor transpose(Operand x, const std::vector<int>& order) {
  return emit(std::make_shared<Transpose>(order), {as_tensor(x)}, x.where);
}

OperatorInfo transpose_info() {
  auto sample = [](std::vector<int> order, const Shape& shape) {
    return OperatorSample{std::make_shared<Transpose>(std::move(order)), floats({shape}), {}};
  };
  return {"transpose", "Dimensions in another order.", {sample({1, 0}, {3, 5}), sample({2, 0, -2}, {2, 3, 4})}};
}

}  // namespace hetsynth
