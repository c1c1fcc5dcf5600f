#include "dsl/ops/slice.h"

#include <fmt/format.h>

#include "dsl/ops/pad.h"
#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"
#include "dsl/ops/support/spaces.h"

namespace hetsynth {
namespace {

class Slice final : public Operator {
 public:
  Slice(int dim, int64_t from, int64_t to) : dim_(dim), from_(from), to_(to) {}
  std::string_view tag() const override { return "slice"; }
  std::string attributes() const override { return fmt::format("dim {} [{},{})", dim_, from_, to_); }

  TensorType infer(std::span<const TensorType> inputs) const override {
    int dim = normalize_dim("slice", dim_, inputs[0].shape);
    auto [from, to] = range(inputs[0].shape[dim]);
    if (from < 0 || to > inputs[0].shape[dim] || from >= to)
      throw UserError(
          {.tag = "slice",
           .message = fmt::format("[{},{}) is no range of dimension {} of {}", from_, to_, dim, text(inputs[0].shape)),
           .expected = fmt::format("0 <= from < to <= {}", inputs[0].shape[dim]),
           .found = fmt::format("[{},{})", from_, to_)});
    TensorType out = inputs[0];
    out.shape[dim] = to - from;
    return out;
  }

  Space space(std::span<const TensorType> inputs, const TensorType& output) const override {
    int dim = normalize_dim("slice", dim_, inputs[0].shape);
    Space space = space_of_result(output);
    space.inputs = {space.output};
    space.inputs[0].dims[dim].offset = range(inputs[0].shape[dim]).first;
    return space;
  }

  Expr body(std::span<const TensorType>, const TensorType&) const override { return Expr::input(0); }

  std::vector<Tensor> vjp(const VjpArguments& v) const override {
    int dim = normalize_dim("slice", dim_, v.inputs[0].shape());
    int64_t extent = v.inputs[0].size(dim);
    auto [from, to] = range(extent);
    return {pad(v.output_gradient, dim, from, extent - to)};
  }

 private:
  std::pair<int64_t, int64_t> range(int64_t extent) const {
    return {from_ < 0 ? from_ + extent : from_, to_ < 0 ? to_ + extent : to_};
  }

  int dim_;
  int64_t from_, to_;
};

}  // namespace

Tensor slice(Operand x, int dim, int64_t from, int64_t to) {
  return emit(std::make_shared<Slice>(dim, from, to), {as_tensor(x)}, x.where);
}

OperatorInfo slice_info() {
  auto sample = [](int dim, int64_t from, int64_t to, const Shape& shape) {
    return OperatorSample{std::make_shared<Slice>(dim, from, to), floats({shape}), {}};
  };
  return {"slice",
          "A range of one dimension.",
          {sample(0, 1, 4, {5, 3}), sample(-1, 0, 2, {2, 3, 4}), sample(1, -2, 3, {2, 3}), sample(0, 0, 3, {3, 2})}};
}

}  // namespace hetsynth
