#include "dsl/transform/at_position.h"

#include <fmt/format.h>

#include <utility>

#include "dsl/base/error.h"
#include "dsl/ops/support/calculus.h"

namespace hetsynth {
namespace {

/// An operator that was worked out for the inputs it has, and for no others.
class DerivedOperator final : public Operator {
 public:
  DerivedOperator(std::string tag, std::string attributes, TensorType type, Space space, Expr body)
      : tag_(std::move(tag)),
        attributes_(std::move(attributes)),
        type_(std::move(type)),
        space_(std::move(space)),
        body_(std::move(body)) {}
  std::string_view tag() const override { return tag_; }
  std::string attributes() const override { return attributes_; }
  TensorType infer(std::span<const TensorType> inputs) const override {
    HETSYNTH_CHECK(inputs.size() == space_.inputs.size(), "it has the inputs that it was made for");
    return type_;
  }
  Space space(std::span<const TensorType>, const TensorType&) const override { return space_; }
  Expr body(std::span<const TensorType>, const TensorType&) const override { return body_; }
  std::vector<Tensor> vjp(const VjpArguments&) const override {
    throw InternalError("a program that generates text has no gradient");
  }

 private:
  std::string tag_, attributes_;
  TensorType type_;
  Space space_;
  Expr body_;
};

Access plain_access(int dims) {
  Access out;
  for (int d = 0; d < dims; ++d) out.dims.push_back(index_by(d));
  return out;
}

std::string place(const Shape& shape, int dim) { return fmt::format("dimension {} of {}", dim, text(shape)); }

}  // namespace

int factor_of_dim(const Node& node, int dim) {
  if (node.leaf() || node.loop >= 0 || mentions(node.body, ExprKind::random)) return -1;
  const DimIndex& index = node.space.output.dims[size_t(dim)];
  if (index.offset != 0 || index.per_turn != 0 || index.terms.size() != 1) return -1;
  const IndexTerm& term = index.terms.front();
  const Factor& factor = node.space.factors[size_t(term.factor)];
  if (!term.plain() || term.stride != 1 || factor.reduced() || factor.size != node.type.shape[size_t(dim)]) return -1;
  for (size_t d = 0; d < node.space.output.dims.size(); ++d)
    for (const IndexTerm& other : node.space.output.dims[d].terms)
      if (int(d) != dim && other.factor == term.factor) return -1;
  return term.factor;
}

OperandAtFactor operand_at(const Node& node, size_t operand, const Shape& shape, int factor) {
  OperandAtFactor out;
  const Access& access = node.space.inputs[operand];
  for (size_t d = 0; d < access.dims.size(); ++d) {
    const DimIndex& index = access.dims[d];
    bool there = false;
    for (const IndexTerm& term : index.terms) there = there || term.factor == factor;
    if (!there) continue;
    const IndexTerm& term = index.terms.front();
    const bool alone = index.terms.size() == 1 && term.plain() && term.stride == 1 && index.offset == 0 &&
                       index.per_turn == 0 && shape[d] >= node.space.factors[size_t(factor)].size;
    if (!alone || out.dim >= 0) out.readable = false;
    out.dim = int(d);
  }
  return out;
}

OperatorAtPosition operator_at(const Node& node, int dim) {
  const int factor = factor_of_dim(node, dim);
  HETSYNTH_CHECK(factor >= 0, "the operator can be computed at one position");
  OperatorAtPosition out;
  TensorType type = node.type;
  type.shape[size_t(dim)] = 1;
  Space space = node.space;
  space.factors[size_t(factor)].size = 1;
  Expr body = node.body;
  if (mentions_factor(body, factor)) {
    out.reads_position = true;
    const int position = int(space.inputs.size());
    space.inputs.emplace_back();
    body = substitute(body, [&](const Expr& leaf) -> std::optional<Expr> {
      if (leaf.kind() == ExprKind::factor && leaf.index() == factor) return Expr::input(position);
      return std::nullopt;
    });
  }
  const std::string attributes = node.op->attributes();
  out.op = std::make_shared<DerivedOperator>(
      std::string(node.op->tag()),
      fmt::format("{}{}at {}", attributes, attributes.empty() ? "" : " ", place(node.type.shape, dim)), std::move(type),
      std::move(space), std::move(body));
  return out;
}

std::shared_ptr<const Operator> pick_position(const Shape& shape, int dim) {
  Space space;
  TensorType type{shape, DType::f32};
  type.shape[size_t(dim)] = 1;
  for (size_t d = 0; d < shape.size(); ++d)
    space.add_factor(fmt::format("i{}", d), shape[d], int(d) == dim ? FactorKind::sum : FactorKind::parallel);
  space.inputs = {plain_access(int(shape.size())), {}};
  space.output = space.inputs.front();
  space.output.dims[size_t(dim)] = {};
  return std::make_shared<DerivedOperator>("pick_position", place(shape, dim), std::move(type), std::move(space),
                                           select(equal(Expr::input(1), Expr::factor(dim)), Expr::input(0), Expr(0.0)));
}

std::shared_ptr<const Operator> put_position(const TensorType& remembered, int dim) {
  Space space;
  for (size_t d = 0; d < remembered.shape.size(); ++d)
    space.add_factor(fmt::format("i{}", d), remembered.shape[d], FactorKind::parallel);
  const Access all = plain_access(int(remembered.shape.size()));
  Access one = all;
  one.dims[size_t(dim)] = {};
  space.inputs = {all, one, {}};
  space.output = all;
  return std::make_shared<DerivedOperator>(
      "put_position", place(remembered.shape, dim), remembered, std::move(space),
      select(equal(Expr::input(2), Expr::factor(dim)), Expr::input(1), Expr::input(0)));
}

}  // namespace hetsynth
