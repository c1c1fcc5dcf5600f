#include "dsl/ops/pad.h"

#include <fmt/format.h>

#include "dsl/ops/slice.h"
#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

class Pad final : public Operator {
 public:
  Pad(int dim, int64_t before, int64_t after) : dim_(dim), before_(before), after_(after) {}
  std::string_view tag() const override { return "pad"; }
  std::string attributes() const override { return fmt::format("dim {} +{} +{}", dim_, before_, after_); }

  TensorType infer(std::span<const TensorType> inputs) const override {
    int dim = normalize_dim("pad", dim_, inputs[0].shape);
    auto possible = [](int64_t padding) { return padding >= 0 && padding <= largest_element_count; };
    if (!possible(before_) || !possible(after_))
      throw UserError({.tag = "pad",
                       .message = "padding is negative or too large",
                       .expected = "0 or more",
                       .found = fmt::format("{} before, {} after", before_, after_),
                       .mend = "take elements away with slice"});
    TensorType out = inputs[0];
    out.shape[dim] += before_ + after_;
    return out;
  }

  Space space(std::span<const TensorType> inputs, const TensorType& output) const override {
    Space space;
    for (size_t d = 0; d < output.shape.size(); ++d)
      space.output.dims.push_back(
          index_by(space.add_factor(fmt::format("i{}", d), output.shape[d], FactorKind::parallel)));
    space.inputs = {space.output};
    space.inputs[0].dims[normalize_dim("pad", dim_, inputs[0].shape)].offset = -before_;
    space.inputs[0].zero_outside = true;
    return space;
  }

  Expr body(std::span<const TensorType>, const TensorType&) const override { return Expr::input(0); }

  std::vector<Tensor> vjp(const VjpArguments& v) const override {
    int dim = normalize_dim("pad", dim_, v.inputs[0].shape());
    return {slice(v.output_gradient, dim, before_, before_ + v.inputs[0].size(dim))};
  }

 private:
  int dim_;
  int64_t before_, after_;
};

}  // namespace

Tensor pad(Operand x, int dim, int64_t before, int64_t after) {
  Tensor in = as_tensor(x);
  if (before == 0 && after == 0) return in;
  return emit(std::make_shared<Pad>(dim, before, after), {in}, x.where);
}

OperatorInfo pad_info() {
  auto sample = [](int dim, int64_t before, int64_t after, const Shape& shape) {
    return OperatorSample{std::make_shared<Pad>(dim, before, after), floats({shape}), {}};
  };
  return {"pad",
          "Zeros around one dimension.",
          {sample(0, 2, 1, {3, 4}), sample(-1, 0, 2, {2, 3}), sample(1, 1, 0, {2, 3})}};
}

}  // namespace hetsynth
