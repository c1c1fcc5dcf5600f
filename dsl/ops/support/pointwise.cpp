#include "dsl/ops/support/pointwise.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "dsl/ops/reshape.h"
#include "dsl/ops/support/calculus.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

bool contains(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

class Pointwise final : public Operator {
 public:
  explicit Pointwise(PointwiseRule rule) : rule_(std::move(rule)) {}

  std::string_view tag() const override { return rule_.tag; }

  std::string attributes() const override {
    std::string out = text(rule_.body);
    if (rule_.reduce)
      out += fmt::format(" {} over [{}]", *rule_.reduce == FactorKind::max ? "max" : "sum", fmt::join(rule_.dims, ","));
    if (rule_.drop) out += fmt::format(" drop [{}]", fmt::join(*rule_.drop, ","));
    if (!rule_.shape.empty()) out += " to " + text(rule_.shape);
    if (rule_.result == DType::i32) out += " as i32";
    for (size_t j = 0; j < rule_.lift.size(); ++j)
      if (rule_.lift[j] != 0) out += fmt::format(" lift{}={}", j, rule_.lift[j]);
    return out;
  }

  TensorType infer(std::span<const TensorType> inputs) const override {
    if (!is_sane(rule_.shape))
      throw UserError({.tag = rule_.tag,
                       .message = "the result has an impossible shape",
                       .expected = "extents of at least 1",
                       .found = text(rule_.shape)});
    for (size_t j = 0; j < inputs.size(); ++j)
      require_dtype(rule_.tag, j, inputs[j], rule_.integers.count(int(j)) ? DType::i32 : DType::f32);
    Shape shape = iteration_shape(inputs), out;
    std::vector<int> reduced = reduced_dims(shape), dropped = dropped_dims(shape);
    for (int d = 0; d < int(shape.size()); ++d)
      if (!contains(dropped, d)) out.push_back(contains(reduced, d) ? 1 : shape[d]);
    return {out, rule_.result};
  }

  Space space(std::span<const TensorType> inputs, const TensorType&) const override {
    Shape shape = iteration_shape(inputs);
    std::vector<int> reduced = reduced_dims(shape), dropped = dropped_dims(shape), factor = factors(shape);
    Space space;
    for (int d = 0; d < int(shape.size()); ++d) {
      if (factor[d] < 0) continue;
      bool reduce = contains(reduced, d);
      space.add_factor(fmt::format("{}{}", reduce ? "r" : "i", d), shape[d],
                       reduce ? *rule_.reduce : FactorKind::parallel);
    }
    for (size_t j = 0; j < inputs.size(); ++j) {
      Access access;
      size_t first = shape.size() - lift(j) - inputs[j].shape.size();
      for (size_t d = 0; d < inputs[j].shape.size(); ++d)
        access.dims.push_back(inputs[j].shape[d] == 1 ? DimIndex{} : index_by(factor[first + d]));
      space.inputs.push_back(std::move(access));
    }
    for (int d = 0; d < int(shape.size()); ++d) {
      if (contains(dropped, d)) continue;
      space.output.dims.push_back(factor[d] < 0 || contains(reduced, d) ? DimIndex{} : index_by(factor[d]));
    }
    return space;
  }

  Expr body(std::span<const TensorType> inputs, const TensorType&) const override {
    std::vector<int> factor = factors(iteration_shape(inputs));
    return substitute(rule_.body, [&](const Expr& leaf) -> std::optional<Expr> {
      if (leaf.kind() != ExprKind::factor) return std::nullopt;
      return factor.at(leaf.index()) < 0 ? Expr(0.0) : Expr::factor(factor[leaf.index()]);
    });
  }

  std::vector<Tensor> vjp(const VjpArguments& arguments) const override {
    if (rule_.vjp) return rule_.vjp(arguments);
    HETSYNTH_CHECK(rule_.reduce != FactorKind::max, "a maximum has its own gradient");
    std::vector<Tensor> out;
    for (size_t j = 0; j < arguments.inputs.size(); ++j) out.push_back(input_gradient(arguments, int(j)));
    return out;
  }

 private:
  size_t lift(size_t input) const { return input < rule_.lift.size() ? size_t(rule_.lift[input]) : 0; }

  static std::vector<TensorType> types_of(const std::vector<Tensor>& tensors) {
    std::vector<TensorType> types;
    for (Tensor t : tensors) types.push_back({t.shape(), t.dtype()});
    return types;
  }

  Shape iteration_shape(std::span<const TensorType> inputs) const {
    std::vector<Shape> shapes;
    for (size_t j = 0; j < inputs.size(); ++j) {
      shapes.push_back(inputs[j].shape);
      shapes.back().insert(shapes.back().end(), lift(j), 1);
    }
    if (!rule_.shape.empty()) shapes.push_back(rule_.shape);
    return broadcast_shapes(rule_.tag, shapes);
  }

  std::vector<int> reduced_dims(const Shape& shape) const {
    return rule_.reduce ? normalize_dims(rule_.tag, rule_.dims, shape) : std::vector<int>{};
  }

  std::vector<int> dropped_dims(const Shape& shape) const {
    if (!rule_.drop) return reduced_dims(shape);
    return rule_.drop->empty() ? std::vector<int>{} : normalize_dims(rule_.tag, *rule_.drop, shape);
  }

  /// Factor of every dimension; -1 where the extent is 1, which no loop and no device ever divides.
  static std::vector<int> factors(const Shape& shape) {
    std::vector<int> out;
    int next = 0;
    for (int64_t extent : shape) out.push_back(extent == 1 ? -1 : next++);
    return out;
  }

  /// One operator that multiplies the derivative by the output's gradient and adds up what broadcasting had copied.
  Tensor input_gradient(const VjpArguments& arguments, int input) const {
    if (rule_.integers.count(input) || rule_.result == DType::i32) return {};
    size_t count = arguments.inputs.size();
    std::optional<Expr> derivative = gradient(rule_.body, input, Expr::input(int(count)));
    if (!derivative) return {};
    std::vector<TensorType> types = types_of(arguments.inputs);
    Shape shape = iteration_shape(types);

    std::vector<Tensor> operands = arguments.inputs;
    operands.push_back(with_kept_dims(arguments.output_gradient, shape));
    PointwiseRule rule{.tag = rule_.tag + "_gradient", .integers = rule_.integers, .shape = shape};
    rule.lift = rule_.lift;
    rule.lift.resize(count + 1, 0);
    reduce_to(rule, shape, types[input].shape, lift(input));
    return emit_without_unused(std::move(rule), *derivative, operands);
  }

  /// The output's gradient with the dropped dimensions back as extents of 1.
  Tensor with_kept_dims(Tensor output_gradient, const Shape& shape) const {
    Shape kept = shape;
    for (int d : reduced_dims(shape)) kept[d] = 1;
    return dropped_dims(shape).empty() ? output_gradient : reshape(output_gradient, kept);
  }

  /// Makes the rule sum over the dimensions along which an operand of this shape was copied.
  static void reduce_to(PointwiseRule& rule, const Shape& shape, const Shape& target, size_t lift) {
    std::vector<int> dims, drop;
    int first = int(shape.size() - lift - target.size());
    for (int d = 0; d < int(shape.size()); ++d) {
      bool absent = d < first || d >= first + int(target.size());
      if (absent) drop.push_back(d);
      if (absent || (target[d - first] == 1 && shape[d] != 1)) dims.push_back(d);
    }
    if (dims.empty()) return;
    rule.reduce = FactorKind::sum;
    if (drop != dims) rule.drop = std::move(drop);
    rule.dims = std::move(dims);
  }

  static Tensor emit_without_unused(PointwiseRule rule, const Expr& body, const std::vector<Tensor>& operands) {
    std::vector<Tensor> used;
    std::vector<int> position(operands.size(), -1), lift;
    std::set<int> integers;
    for (int j = 0; j < int(operands.size()); ++j) {
      if (!mentions_input(body, j)) continue;
      position[j] = int(used.size());
      if (rule.integers.count(j)) integers.insert(position[j]);
      lift.push_back(rule.lift[j]);
      used.push_back(operands[j]);
    }
    rule.body = substitute(body, [&](const Expr& leaf) -> std::optional<Expr> {
      if (leaf.kind() != ExprKind::input) return std::nullopt;
      return Expr::input(position[leaf.index()]);
    });
    rule.lift = std::move(lift);
    rule.integers = std::move(integers);
    Shape needed = std::exchange(rule.shape, {});
    if (Pointwise(rule).iteration_shape(types_of(used)) != needed) rule.shape = needed;
    if (rule.body == Expr::input(0)) {
      if (!rule.reduce && used[0].shape() == needed) return used[0];
      rule.tag = rule.reduce ? "sum" : "broadcast";
    }
    return pointwise(std::move(rule), std::move(used));
  }

  PointwiseRule rule_;
};

/// The body with numbers in place of the arguments that are numbers, and the tensors that remain.
PointwiseRule binary_rule(const std::string& tag, const std::optional<double>& a, const std::optional<double>& b,
                          BinaryBody body) {
  Expr left = a ? Expr(*a) : Expr::input(0);
  Expr right = b ? Expr(*b) : Expr::input(a ? 0 : 1);
  return {.tag = tag, .body = body(left, right)};
}

/// All inputs and the result are whole numbers.
void of_integers(PointwiseRule& rule, size_t inputs) {
  for (size_t j = 0; j < inputs; ++j) rule.integers.insert(int(j));
  rule.result = DType::i32;
}

}  // namespace

std::shared_ptr<const Operator> pointwise_operator(PointwiseRule rule) {
  return std::make_shared<Pointwise>(std::move(rule));
}

Tensor pointwise(PointwiseRule rule, std::vector<Tensor> inputs, const std::source_location& where) {
  return emit(pointwise_operator(std::move(rule)), std::move(inputs), where);
}

Tensor unary(const std::string& tag, const Operand& x, const Expr& body, CustomVjp vjp) {
  return pointwise({.tag = tag, .body = body, .vjp = std::move(vjp)}, {as_tensor(x)}, x.where);
}

Tensor binary(const std::string& tag, const Operand& a, const Operand& b, BinaryBody body, OfIntegers integers) {
  std::vector<Tensor> inputs;
  std::optional<double> left, right;
  if (b.is_number) right = b.number;
  if (a.is_number && !b.is_number) left = a.number;
  if (!left) inputs.push_back(as_tensor(a));
  if (!right) inputs.push_back(b.tensor);
  PointwiseRule rule = binary_rule(tag, left, right, body);
  if (integers == OfIntegers::whole) {
    CallScope scope(a.where);
    if (are_integers(tag.c_str(), {a, b})) of_integers(rule, inputs.size());
  }
  return pointwise(std::move(rule), std::move(inputs), a.where);
}

bool are_integers(const char* tag, const std::vector<Operand>& operands, size_t first) {
  std::vector<Tensor> tensors;
  size_t whole = 0;
  for (const Operand& operand : operands) {
    if (operand.is_number) continue;
    tensors.push_back(as_tensor(operand));
    if (tensors.back().dtype() == DType::i32) ++whole;
  }
  if (whole == 0) return false;
  if (whole < tensors.size())
    checked_call(tensors, [&] {
      for (size_t j = 0; j < operands.size(); ++j)
        if (Tensor t = operands[j].tensor; !operands[j].is_number && t.dtype() == DType::i32)
          require_dtype(tag, first + j, {t.shape(), t.dtype()}, DType::f32);
    });
  for (const Operand& operand : operands)
    if (operand.is_number && !(std::abs(operand.number) <= double(std::numeric_limits<int32_t>::max()) &&
                               operand.number == std::floor(operand.number)))
      fail_call({.tag = tag,
                 .message = "a number that is not whole meets whole numbers",
                 .expected = "a whole number of int32 beside a tensor of int32",
                 .found = fmt::format("{}", operand.number),
                 .mend = "turn the tensor into float32 with to_float(x)"},
                tensors);
  return true;
}

std::vector<TensorType> floats(const std::vector<Shape>& shapes) {
  std::vector<TensorType> out;
  for (const Shape& shape : shapes) out.push_back({shape, DType::f32});
  return out;
}

std::vector<OperatorSample> unary_samples(const std::string& tag, const Expr& body, OperatorSample::Domain domain,
                                          CustomVjp vjp) {
  auto op = pointwise_operator({.tag = tag, .body = body, .vjp = std::move(vjp)});
  return {{op, floats({{3, 5}}), {domain}}, {op, floats({{2, 1, 4}}), {domain}}, {op, floats({{}}), {domain}}};
}

std::vector<OperatorSample> binary_samples(const std::string& tag, BinaryBody body, OperatorSample::Domain left,
                                           OperatorSample::Domain right) {
  auto both = pointwise_operator(binary_rule(tag, {}, {}, body));
  return {{both, floats({{3, 5}, {3, 5}}), {left, right}},
          {both, floats({{2, 3, 4}, {4}}), {left, right}},
          {both, floats({{3, 1}, {2, 1, 5}}), {left, right}},
          {both, floats({{}, {6}}), {left, right}},
          {pointwise_operator(binary_rule(tag, {}, 1.75, body)), floats({{4, 3}}), {left}},
          {pointwise_operator(binary_rule(tag, 0.75, {}, body)), floats({{4, 3}}), {right}}};
}

std::vector<OperatorSample> integer_binary_samples(const std::string& tag, BinaryBody body) {
  const auto op = [&](const std::optional<double>& right) {
    PointwiseRule rule = binary_rule(tag, {}, right, body);
    of_integers(rule, right ? 1 : 2);
    return pointwise_operator(std::move(rule));
  };
  return {{op({}), {{{2, 3, 4}, DType::i32}, {{4}, DType::i32}}, {{-9, 9}, {-9, 9}}},
          {op(3.0), {{{5, 3}, DType::i32}}, {{-9, 9}}}};
}

}  // namespace hetsynth
