#include "dsl/ops/embedding.h"

#include <fmt/format.h>

#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

void require_rank(size_t position, const TensorType& type, size_t rank, const char* meaning) {
  if (type.shape.size() == rank) return;
  throw UserError({.tag = "embedding",
                   .message = fmt::format("argument {} must be {}", position + 1, meaning),
                   .expected = fmt::format("{} dimensions", rank),
                   .found = text(type)});
}

/// Factors: i0, i1, ... of the indices, v of the vocabulary, c of the width.
struct Factors {
  Space space;
  Access table, indices, rows;

  Factors(const Shape& index_shape, int64_t vocabulary, int64_t width, bool sum_rows) {
    for (size_t d = 0; d < index_shape.size(); ++d)
      indices.dims.push_back(index_by(
          space.add_factor(fmt::format("i{}", d), index_shape[d], sum_rows ? FactorKind::sum : FactorKind::parallel)));
    int v = space.add_factor("v", vocabulary, sum_rows ? FactorKind::parallel : FactorKind::sum);
    int c = space.add_factor("c", width, FactorKind::parallel);
    table.dims = {index_by(v), index_by(c)};
    rows.dims = indices.dims;
    rows.dims.push_back(index_by(c));
  }
};

/// select(index == v, value, 0): a lookup when summed over v, a scatter when summed over the indices.
Expr at_index(int indices, int value, int vocabulary_factor) {
  return select(equal(Expr::input(indices), Expr::factor(vocabulary_factor)), Expr::input(value), Expr(0.0));
}

/// Gradient by the table: rows [..., C] added up by index into [V, C].
class EmbeddingGradient final : public Operator {
 public:
  explicit EmbeddingGradient(int64_t vocabulary) : vocabulary_(vocabulary) {}
  std::string_view tag() const override { return "embedding_gradient"; }
  std::string attributes() const override { return fmt::format("{} rows", vocabulary_); }

  TensorType infer(std::span<const TensorType> inputs) const override {
    return {{vocabulary_, inputs[0].shape.back()}, DType::f32};
  }

  Space space(std::span<const TensorType> inputs, const TensorType& output) const override {
    Factors factors(inputs[1].shape, vocabulary_, output.shape[1], true);
    factors.space.inputs = {factors.rows, factors.indices};
    factors.space.output = factors.table;
    return factors.space;
  }

  Expr body(std::span<const TensorType> inputs, const TensorType&) const override {
    return at_index(1, 0, int(inputs[1].shape.size()));
  }

  std::vector<Tensor> vjp(const VjpArguments& v) const override {
    return {embedding(v.output_gradient, v.inputs[1]), Tensor()};
  }

 private:
  int64_t vocabulary_;
};

class Embedding final : public Operator {
 public:
  std::string_view tag() const override { return "embedding"; }

  TensorType infer(std::span<const TensorType> inputs) const override {
    require_rank(0, inputs[0], 2, "a table of rows");
    require_dtype("embedding", 0, inputs[0], DType::f32);
    require_dtype("embedding", 1, inputs[1], DType::i32);
    Shape shape = inputs[1].shape;
    shape.push_back(inputs[0].shape[1]);
    return {shape, DType::f32};
  }

  Space space(std::span<const TensorType> inputs, const TensorType&) const override {
    Factors factors(inputs[1].shape, inputs[0].shape[0], inputs[0].shape[1], false);
    factors.space.inputs = {factors.table, factors.indices};
    factors.space.output = factors.rows;
    return factors.space;
  }

  Expr body(std::span<const TensorType> inputs, const TensorType&) const override {
    return at_index(1, 0, int(inputs[1].shape.size()));
  }

  std::vector<Tensor> vjp(const VjpArguments& v) const override {
    return {emit(std::make_shared<EmbeddingGradient>(v.inputs[0].size(0)), {v.output_gradient, v.inputs[1]}), Tensor()};
  }
};

}  // namespace

Tensor embedding(Operand table, Operand indices) {
  CallScope scope(table.where);
  Tensor rows = as_tensor(table), at = as_tensor(indices);
  Tensor out = emit(std::make_shared<Embedding>(), {rows, at}, table.where);
  require_index_range("embedding", at, rows.size(0), "the table");
  return out;
}

OperatorInfo embedding_info() {
  auto sample = [](const Shape& table, const Shape& indices) {
    return OperatorSample{
        std::make_shared<Embedding>(), {{table, DType::f32}, {indices, DType::i32}}, {{}, {0, double(table[0] - 1)}}};
  };
  OperatorSample gradient{
      std::make_shared<EmbeddingGradient>(5), {{{4, 3}, DType::f32}, {{4}, DType::i32}}, {{}, {0, 4}}};
  return {"embedding", "Rows of a table.", {sample({7, 3}, {2, 4}), sample({5, 2}, {6}), gradient}};
}

}  // namespace hetsynth
