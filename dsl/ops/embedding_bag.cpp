#include "dsl/ops/embedding_bag.h"

#include <fmt/format.h>

#include "dsl/ops/mul.h"
#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

/// Factors: i0, i1, ... of the indices, the last of which is the bag; v of the vocabulary; c of the width.
Space bag_space(const Shape& indices, int64_t vocabulary, int64_t width, bool gradient) {
  Space space;
  Access at_index, at_bag;
  for (size_t d = 0; d < indices.size(); ++d) {
    bool summed = gradient || d + 1 == indices.size();
    at_index.dims.push_back(
        index_by(space.add_factor(fmt::format("i{}", d), indices[d], summed ? FactorKind::sum : FactorKind::parallel)));
  }
  int v = space.add_factor("v", vocabulary, gradient ? FactorKind::parallel : FactorKind::sum);
  int c = space.add_factor("c", width, FactorKind::parallel);
  at_bag.dims.assign(at_index.dims.begin(), at_index.dims.end() - 1);
  at_bag.dims.push_back(index_by(c));
  Access table{{index_by(v), index_by(c)}};
  space.inputs = {gradient ? at_bag : table, at_index};
  space.output = gradient ? table : at_bag;
  return space;
}

Expr bag_body(const Shape& indices) {
  return select(equal(Expr::input(1), Expr::factor(int(indices.size()))), Expr::input(0), Expr(0.0));
}

/// Gradient by the table: every row of the bag's gradient is added to all rows that the bag names.
class EmbeddingBagGradient final : public Operator {
 public:
  explicit EmbeddingBagGradient(int64_t vocabulary) : vocabulary_(vocabulary) {}
  std::string_view tag() const override { return "embedding_bag_gradient"; }
  std::string attributes() const override { return fmt::format("{} rows", vocabulary_); }
  TensorType infer(std::span<const TensorType> inputs) const override {
    return {{vocabulary_, inputs[0].shape.back()}, DType::f32};
  }
  Space space(std::span<const TensorType> inputs, const TensorType& output) const override {
    return bag_space(inputs[1].shape, vocabulary_, output.shape[1], true);
  }
  Expr body(std::span<const TensorType> inputs, const TensorType&) const override { return bag_body(inputs[1].shape); }
  std::vector<Tensor> vjp(const VjpArguments& v) const override {
    return {embedding_bag(v.output_gradient, v.inputs[1]), Tensor()};
  }

 private:
  int64_t vocabulary_;
};

class EmbeddingBag final : public Operator {
 public:
  std::string_view tag() const override { return "embedding_bag"; }

  TensorType infer(std::span<const TensorType> inputs) const override {
    require_dtype("embedding_bag", 0, inputs[0], DType::f32);
    require_dtype("embedding_bag", 1, inputs[1], DType::i32);
    require_rank_at_least("embedding_bag", 1, inputs[1], 1);
    if (inputs[0].shape.size() != 2)
      throw UserError({.tag = "embedding_bag",
                       .message = "argument 1 must be a table of rows",
                       .expected = "2 dimensions",
                       .found = text(inputs[0])});
    Shape shape = inputs[1].shape;
    shape.back() = inputs[0].shape[1];
    return {shape, DType::f32};
  }
  Space space(std::span<const TensorType> inputs, const TensorType&) const override {
    return bag_space(inputs[1].shape, inputs[0].shape[0], inputs[0].shape[1], false);
  }
  Expr body(std::span<const TensorType> inputs, const TensorType&) const override { return bag_body(inputs[1].shape); }
  std::vector<Tensor> vjp(const VjpArguments& v) const override {
    return {emit(std::make_shared<EmbeddingBagGradient>(v.inputs[0].size(0)), {v.output_gradient, v.inputs[1]}),
            Tensor()};
  }
};

}  // namespace

Tensor embedding_bag(Operand table, Operand indices, BagMode mode) {
  CallScope scope(table.where);
  Tensor rows = as_tensor(table), at = as_tensor(indices);
  Tensor bags = emit(std::make_shared<EmbeddingBag>(), {rows, at}, table.where);
  require_index_range("embedding_bag", at, rows.size(0), "the table");
  return mode == BagMode::sum ? bags : bags * (1.0 / double(at.size(-1)));
}

OperatorInfo embedding_bag_info() {
  auto sample = [](const Shape& table, const Shape& indices) {
    return OperatorSample{std::make_shared<EmbeddingBag>(),
                          {{table, DType::f32}, {indices, DType::i32}},
                          {{}, {0, double(table[0] - 1)}}};
  };
  OperatorSample gradient{
      std::make_shared<EmbeddingBagGradient>(5), {{{4, 3}, DType::f32}, {{4, 2}, DType::i32}}, {{}, {0, 4}}};
  return {"embedding_bag", "Sums of rows of a table.", {sample({7, 3}, {4, 2}), sample({5, 2}, {2, 3, 4}), gradient}};
}

}  // namespace hetsynth
