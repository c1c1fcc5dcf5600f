#include "dsl/ops/concat.h"

#include <fmt/format.h>

#include "dsl/ops/slice.h"
#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"
#include "dsl/ops/support/spaces.h"

namespace hetsynth {
namespace {

class Concat final : public Operator {
 public:
  explicit Concat(int dim) : dim_(dim) {}
  std::string_view tag() const override { return "concat"; }
  std::string attributes() const override { return fmt::format("dim {}", dim_); }

  TensorType infer(std::span<const TensorType> inputs) const override {
    if (inputs.empty())
      throw UserError({.tag = "concat", .message = "there is nothing to join", .expected = "one tensor or more"});
    TensorType out = inputs[0];
    int dim = normalize_dim("concat", dim_, out.shape);
    out.shape[dim] = 0;
    for (const TensorType& in : inputs) {
      Shape others = in.shape;
      if (others.size() == out.shape.size()) others[dim] = out.shape[dim];
      if (others != out.shape || in.dtype != out.dtype)
        throw UserError({.tag = "concat",
                         .message = fmt::format("the tensors differ in more than dimension {}", dim),
                         .expected = "tensors like " + text(inputs[0]),
                         .found = text(in)});
      out.shape[dim] += in.shape[dim];
    }
    return out;
  }

  Space space(std::span<const TensorType> inputs, const TensorType& output) const override {
    Space space = space_of_result(output);
    int dim = normalize_dim("concat", dim_, output.shape);
    int64_t offset = 0;
    for (const TensorType& in : inputs) {
      Access access = space.output;
      access.zero_outside = true;
      access.dims[dim].offset = -offset;
      offset += in.shape[dim];
      space.inputs.push_back(std::move(access));
    }
    return space;
  }

  /// Every element lies in one of the tensors; the others read 0 there.
  Expr body(std::span<const TensorType> inputs, const TensorType&) const override {
    Expr total = Expr::input(0);
    for (size_t j = 1; j < inputs.size(); ++j) total = total + Expr::input(int(j));
    return total;
  }

  std::vector<Tensor> vjp(const VjpArguments& v) const override {
    std::vector<Tensor> out;
    int dim = normalize_dim("concat", dim_, v.output.shape());
    int64_t from = 0;
    for (Tensor in : v.inputs) {
      int64_t to = from + in.size(dim);
      out.push_back(slice(v.output_gradient, dim, from, to));
      from = to;
    }
    return out;
  }

 private:
  int dim_;
};

}  // namespace

Tensor concat(const std::vector<Tensor>& tensors, int dim, std::source_location where) {
  return emit(std::make_shared<Concat>(dim), tensors, where);
}

Tensor concat(std::initializer_list<Operand> tensors, int dim) {
  std::vector<Tensor> list;
  for (const Operand& operand : tensors) list.push_back(as_tensor(operand));
  return concat(list, dim, tensors.size() ? tensors.begin()->where : std::source_location::current());
}

OperatorInfo concat_info() {
  auto sample = [](int dim, const std::vector<Shape>& shapes) {
    return OperatorSample{std::make_shared<Concat>(dim), floats(shapes), {}};
  };
  return {"concat",
          "Tensors one after another.",
          {sample(0, {{2, 3}, {4, 3}}), sample(-1, {{2, 1}, {2, 3}, {2, 2}}), sample(1, {{2, 3, 2}, {2, 1, 2}})}};
}

}  // namespace hetsynth
