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

std::string place(const Shape& shape, int dim, int64_t count) {
  return fmt::format("{}dimension {} of {}", count == 1 ? "" : fmt::format("{} positions of ", count), dim,
                     text(shape));
}

/// A space over a tensor's elements whose dimension `dim` is run over by blocks of `count` positions and, inside of
/// them, by positions. `whole` indexes the tensor, `block` one block of it.
struct BlockSpace {
  Space space;
  int number = -1;  ///< factor that runs over the blocks
  Access whole, block;
};

BlockSpace block_space(const Shape& shape, int dim, int64_t count, FactorKind kind) {
  BlockSpace out;
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool divided = int(d) == dim;
    const int factor = out.space.add_factor(fmt::format("i{}", d), divided ? shape[d] / count : shape[d],
                                            divided ? kind : FactorKind::parallel);
    out.whole.dims.push_back(index_by(factor));
    out.block.dims.push_back(divided ? DimIndex{} : index_by(factor));
    if (divided) out.number = factor;
  }
  if (count == 1) return out;
  const int inside = out.space.add_factor("inside", count, FactorKind::parallel);
  out.whole.dims[size_t(dim)].terms = {{.factor = out.number, .stride = count}, {.factor = inside}};
  out.block.dims[size_t(dim)] = index_by(inside);
  return out;
}

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

OperatorAtPosition operator_at(const Node& node, int dim, int64_t count) {
  const int factor = factor_of_dim(node, dim);
  HETSYNTH_CHECK(factor >= 0, "the operator can be computed at one position");
  OperatorAtPosition out;
  TensorType type = node.type;
  type.shape[size_t(dim)] = count;
  Space space = node.space;
  space.factors[size_t(factor)].size = count;
  Expr body = node.body;
  if (mentions_factor(body, factor)) {
    out.reads_position = true;
    const int block = int(space.inputs.size());
    space.inputs.emplace_back();
    const Expr position =
        count == 1 ? Expr::input(block) : Expr::input(block) * Expr(double(count)) + Expr::factor(factor);
    body = substitute(body, [&](const Expr& leaf) -> std::optional<Expr> {
      if (leaf.kind() == ExprKind::factor && leaf.index() == factor) return position;
      return std::nullopt;
    });
  }
  const std::string attributes = node.op->attributes();
  out.op = std::make_shared<DerivedOperator>(
      std::string(node.op->tag()),
      fmt::format("{}{}at {}", attributes, attributes.empty() ? "" : " ", place(node.type.shape, dim, count)),
      std::move(type), std::move(space), std::move(body));
  return out;
}

std::shared_ptr<const Operator> pick_positions(const Shape& shape, int dim, int64_t count) {
  BlockSpace at = block_space(shape, dim, count, FactorKind::sum);
  TensorType type{shape, DType::f32};
  type.shape[size_t(dim)] = count;
  at.space.inputs = {at.whole, {}};
  at.space.output = at.block;
  return std::make_shared<DerivedOperator>(
      "pick_position", place(shape, dim, count), std::move(type), std::move(at.space),
      select(equal(Expr::input(1), Expr::factor(at.number)), Expr::input(0), Expr(0.0)));
}

std::shared_ptr<const Operator> put_positions(const TensorType& remembered, int dim, int64_t count) {
  BlockSpace at = block_space(remembered.shape, dim, count, FactorKind::parallel);
  at.space.inputs = {at.whole, at.block, {}};
  at.space.output = at.whole;
  return std::make_shared<DerivedOperator>(
      "put_position", place(remembered.shape, dim, count), remembered, std::move(at.space),
      select(equal(Expr::input(2), Expr::factor(at.number)), Expr::input(1), Expr::input(0)));
}

}  // namespace hetsynth
