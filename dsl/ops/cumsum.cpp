#include "dsl/ops/cumsum.h"

#include <fmt/format.h>

#include "dsl/ops/add.h"
#include "dsl/ops/reshape.h"
#include "dsl/ops/sum.h"
#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"
#include "dsl/ops/support/spaces.h"

namespace hetsynth {
namespace {

/// out[i] = sum over j of x[j] where j comes before i, or after it (`reverse`, the gradient).
class Cumsum final : public Operator {
 public:
  Cumsum(int dim, bool exclusive, bool reverse) : dim_(dim), exclusive_(exclusive), reverse_(reverse) {}
  std::string_view tag() const override { return "cumsum"; }
  std::string attributes() const override {
    return fmt::format("dim {}{}{}", dim_, exclusive_ ? " exclusive" : "", reverse_ ? " reverse" : "");
  }

  TensorType infer(std::span<const TensorType> inputs) const override {
    require_dtype("cumsum", 0, inputs[0], DType::f32);
    normalize_dim("cumsum", dim_, inputs[0].shape);
    return inputs[0];
  }

  Space space(std::span<const TensorType> inputs, const TensorType& output) const override {
    int dim = normalize_dim("cumsum", dim_, inputs[0].shape);
    Space space = space_of_result(output);
    space.inputs = {space.output};
    space.inputs[0].dims[size_t(dim)] = index_by(space.add_factor("j", output.shape[size_t(dim)], FactorKind::sum));
    return space;
  }

  Expr body(std::span<const TensorType> inputs, const TensorType&) const override {
    Expr own = Expr::factor(normalize_dim("cumsum", dim_, inputs[0].shape));
    Expr other = Expr::factor(int(inputs[0].shape.size()));
    Expr first = reverse_ ? own : other, second = reverse_ ? other : own;
    return select(exclusive_ ? less(first, second) : less_equal(first, second), Expr::input(0), 0.0);
  }

  std::vector<Tensor> vjp(const VjpArguments& v) const override {
    return {emit(std::make_shared<Cumsum>(dim_, exclusive_, !reverse_), {v.output_gradient})};
  }

 private:
  int dim_;
  bool exclusive_, reverse_;
};

Tensor running_sum(Tensor x, int dim, bool exclusive) {
  int64_t extent = x.size(dim), blocks = scan_blocks(extent);
  if (blocks == 1) return emit(std::make_shared<Cumsum>(dim, exclusive, false), {x});
  Shape shape = x.shape(), blocked = shape;
  blocked[size_t(dim)] = extent / blocks;
  blocked.insert(blocked.begin() + dim, blocks);
  Tensor parts = reshape(x, blocked);
  Tensor before = running_sum(sum(parts, dim + 1, true), dim, true);
  return reshape(running_sum(parts, dim + 1, exclusive) + before, shape);
}

}  // namespace

Tensor cumsum(Operand x, int dim, bool exclusive) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x);
  return running_sum(in, checked_call({in}, [&] { return normalize_dim("cumsum", dim, in.shape()); }), exclusive);
}

OperatorInfo cumsum_info() {
  auto sample = [](int dim, bool exclusive, bool reverse, const Shape& shape) {
    return OperatorSample{std::make_shared<Cumsum>(dim, exclusive, reverse), floats({shape}), {}};
  };
  return {"cumsum",
          "Running sums.",
          {sample(0, false, false, {7}), sample(-1, true, false, {3, 5}), sample(0, false, true, {5, 3})}};
}

}  // namespace hetsynth
