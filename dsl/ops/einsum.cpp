#include "dsl/ops/einsum.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <utility>

#include "dsl/base/counted.h"
#include "dsl/ops/broadcast.h"
#include "dsl/ops/cast.h"
#include "dsl/ops/reshape.h"
#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

struct Letters {
  std::string a, b, out;
};

bool has(const std::string& letters, char letter) { return letters.find(letter) != std::string::npos; }

bool distinct_letters(const std::string& letters) {
  for (size_t i = 0; i < letters.size(); ++i)
    if (!std::isalpha(static_cast<unsigned char>(letters[i])) || letters.find(letters[i]) != i) return false;
  return true;
}

std::string without_spaces(std::string text) {
  std::erase(text, ' ');
  return text;
}

Letters parse(const std::string& spec) {
  size_t comma = spec.find(','), arrow = spec.find("->");
  bool shaped = comma != std::string::npos && arrow != std::string::npos && comma < arrow;
  Letters l;
  if (shaped) l = {spec.substr(0, comma), spec.substr(comma + 1, arrow - comma - 1), spec.substr(arrow + 2)};
  bool known = std::all_of(l.out.begin(), l.out.end(), [&](char c) { return has(l.a, c) || has(l.b, c); });
  if (!shaped || !distinct_letters(l.a) || !distinct_letters(l.b) || !distinct_letters(l.out) || !known)
    throw UserError(
        {.tag = "einsum",
         .message = fmt::format("\"{}\" is no contraction of two tensors", spec),
         .expected = "two lists of letters, each letter once per list, and a result made of them: \"ij,jk->ik\"",
         .found = spec});
  return l;
}

/// Letters of `wanted` in its order, as far as `a` or `b` carry them.
std::string carried(const std::string& wanted, const std::string& a, const std::string& b) {
  std::string out;
  for (char c : wanted)
    if (has(a, c) || has(b, c)) out += c;
  return out;
}

class Einsum final : public Operator {
 public:
  explicit Einsum(std::string spec) : spec_(without_spaces(std::move(spec))), letters_(parse(spec_)) {}

  std::string_view tag() const override { return "einsum"; }
  const Letters& letters() const { return letters_; }
  std::string attributes() const override { return spec_; }

  TensorType infer(std::span<const TensorType> inputs) const override {
    require_products("einsum", inputs);
    require_letters(0, letters_.a, inputs[0]);
    require_letters(1, letters_.b, inputs[1]);
    for (char c : letters_.a) {
      if (!has(letters_.b, c)) continue;
      int64_t in_a = inputs[0].shape[letters_.a.find(c)], in_b = inputs[1].shape[letters_.b.find(c)];
      if (in_a != in_b)
        throw UserError(
            {.tag = "einsum",
             .message = fmt::format("extents of {} disagree: {}", c, joined({inputs[0].shape, inputs[1].shape}, " x ")),
             .expected = fmt::format("one extent for {} in \"{}\"", c, spec_),
             .found = fmt::format("{} and {}", in_a, in_b)});
    }
    TensorType out;
    for (char c : letters_.out) out.shape.push_back(extent(c, inputs));
    return out;
  }

  Space space(std::span<const TensorType> inputs, const TensorType&) const override {
    Space space;
    std::string order = letters_.out;
    for (char c : letters_.out) space.add_factor(std::string(1, c), extent(c, inputs), FactorKind::parallel);
    for (char c : letters_.a + letters_.b) {
      if (has(order, c)) continue;
      order += c;
      space.add_factor(std::string(1, c), extent(c, inputs), FactorKind::sum);
    }
    auto access = [&](const std::string& letters) {
      Access access;
      for (char c : letters) access.dims.push_back(index_by(int(order.find(c))));
      return access;
    };
    space.inputs = {access(letters_.a), access(letters_.b)};
    space.output = access(letters_.out);
    return space;
  }

  Expr body(std::span<const TensorType>, const TensorType&) const override { return Expr::input(0) * Expr::input(1); }

  std::vector<Tensor> vjp(const VjpArguments& v) const override {
    const Tensor dy = cast(v.output_gradient, v.inputs[0].dtype());  // once, for both
    return {input_gradient(dy, v.inputs[1], letters_.b, v.inputs[0], letters_.a),
            input_gradient(dy, v.inputs[0], letters_.a, v.inputs[1], letters_.b)};
  }

 private:
  void require_letters(size_t position, const std::string& letters, const TensorType& type) const {
    if (letters.size() == type.shape.size()) return;
    throw UserError({.tag = "einsum",
                     .message = fmt::format("\"{}\" gives argument {} as many dimensions as \"{}\" has letters", spec_,
                                            position + 1, letters),
                     .expected = fmt::format("{} dimensions", letters.size()),
                     .found = text(type)});
  }

  int64_t extent(char letter, std::span<const TensorType> inputs) const {
    size_t in_a = letters_.a.find(letter);
    return in_a != std::string::npos ? inputs[0].shape[in_a] : inputs[1].shape[letters_.b.find(letter)];
  }

  /// The output's gradient contracted with the other operand. A letter that neither carries was summed over this
  /// operand alone: its gradient is the same at every value.
  Tensor input_gradient(Tensor dy, Tensor other, const std::string& other_letters, Tensor self,
                        const std::string& letters) const {
    std::string there = carried(letters, letters_.out, other_letters);
    Tensor product = einsum(letters_.out + "," + other_letters + "->" + there, dy, other);
    if (there == letters) return product;
    Shape with_gaps = self.shape();
    for (size_t d = 0; d < letters.size(); ++d)
      if (!has(there, letters[d])) with_gaps[d] = 1;
    return broadcast(reshape(product, with_gaps), self.shape());
  }

  std::string spec_;
  Letters letters_;
};

}  // namespace

namespace {

/// Made from parameters alone, in a few steps.
bool is_weight(const Program& program, NodeId id, int depth = 8) {
  const Node& node = program[id];
  if (node.leaf()) return node.kind == NodeKind::parameter;
  if (depth == 0 || node.inputs.empty()) return false;
  return std::all_of(node.inputs.begin(), node.inputs.end(),
                     [&](NodeId input) { return is_weight(program, input, depth - 1); });
}

/// Made from constants alone: the weights of an average, a mask.
bool is_table(const Program& program, NodeId id, int depth = 8) {
  const Node& node = program[id];
  if (is_constant_data(node)) return true;
  return !node.leaf() && depth > 0 && std::all_of(node.inputs.begin(), node.inputs.end(), [&](NodeId input) {
    return is_table(program, input, depth - 1);
  });
}

/// Whether something is summed, and either operand has a dimension of its own beside it: what tensor cores are for. A
/// sum of squares is none.
bool multiplies_matrices(const Letters& l) {
  const auto any = [](const std::string& letters, auto holds) {
    return std::any_of(letters.begin(), letters.end(), holds);
  };
  return any(l.a, [&](char c) { return has(l.b, c) && !has(l.out, c); }) &&
         any(l.a, [&](char c) { return !has(l.b, c) && has(l.out, c); }) &&
         any(l.b, [&](char c) { return !has(l.a, c) && has(l.out, c); });
}

/// Under mixed_precision: products with weights, matrix products of activations, and those of their gradients, take
/// its format.
void to_product_type(const Letters& letters, std::vector<Tensor>& inputs) {
  Trace& trace = Trace::current();
  bool reals = is_real(inputs[0].dtype()) && is_real(inputs[1].dtype());
  if (trace.product_type == DType::f32 || !reals) return;
  bool wanted = multiplies_matrices(letters);
  for (Tensor t : inputs) wanted = wanted && !is_table(trace.program, t.node());
  for (Tensor t : inputs) wanted = wanted || t.dtype() == trace.product_type || is_weight(trace.program, t.node());
  if (!wanted) return;
  for (Tensor& t : inputs) t = cast(t, trace.product_type);
  if (trace.first_cast_operand < 0) trace.first_cast_operand = inputs.front().node();
}

}  // namespace

Tensor einsum(const std::string& spec, Operand a, Operand b) {
  CallScope scope(a.where);
  std::vector<Tensor> inputs = {as_tensor(a), as_tensor(b)};
  const auto product = checked_call(inputs, [&] { return std::make_shared<Einsum>(spec); });
  to_product_type(product->letters(), inputs);
  return emit(product, inputs, a.where);
}

namespace {

/// Specification of a contraction of several tensors.
struct Lists {
  std::vector<std::string> in;
  std::string out;
};

Lists parse_three(const std::string& spec) {
  Lists l;
  const std::string text = without_spaces(spec);
  const size_t arrow = text.find("->");
  std::string list;
  for (char c : text.substr(0, arrow)) {
    if (c == ',')
      l.in.push_back(std::exchange(list, {}));
    else
      list += c;
  }
  l.in.push_back(list);
  if (arrow != std::string::npos) l.out = text.substr(arrow + 2);
  bool fits = arrow != std::string::npos && l.in.size() == 3 && distinct_letters(l.out);
  for (const std::string& letters : l.in) fits = fits && distinct_letters(letters);
  for (char c : l.out) fits = fits && std::ranges::any_of(l.in, [&](const std::string& in) { return has(in, c); });
  if (!fits)
    throw UserError({.tag = "einsum",
                     .message = fmt::format("\"{}\" is no contraction of three tensors", spec),
                     .expected = "three lists of letters, each letter once per list, and a result made of them: "
                                 "\"ij,jk,kl->il\"",
                     .found = spec,
                     .mend = "one list for each of the three tensors"});
  return l;
}

/// The product of two lists on the way to `wanted`: letters that are still needed, those of `a` first.
std::string letters_between(const std::string& a, const std::string& b, const std::string& wanted) {
  std::string out;
  for (char c : a + b)
    if (has(wanted, c) && !has(out, c)) out += c;
  return out;
}

/// Checks that a letter has one extent wherever it stands.
std::map<char, int64_t> extents_of(const Lists& l, const std::vector<Tensor>& inputs, const std::string& spec) {
  std::map<char, int64_t> out;
  for (size_t j = 0; j < inputs.size(); ++j) {
    const Shape& shape = inputs[j].shape();
    if (shape.size() != l.in[j].size())
      throw UserError({.tag = "einsum",
                       .message = fmt::format("\"{}\" gives argument {} as many dimensions as \"{}\" has letters", spec,
                                              j + 1, l.in[j]),
                       .expected = counted(int64_t(l.in[j].size()), "dimension"),
                       .found = text(shape)});
    for (size_t d = 0; d < shape.size(); ++d) {
      const auto [at, fresh] = out.emplace(l.in[j][d], shape[d]);
      if (at->second == shape[d]) continue;
      throw UserError({.tag = "einsum",
                       .message = fmt::format("extents of {} disagree in argument {}", l.in[j][d], j + 1),
                       .expected = fmt::format("{}, as in an argument before", at->second),
                       .found = text(shape),
                       .mend = fmt::format("one extent for {} in \"{}\"", l.in[j][d], spec)});
    }
  }
  return out;
}

}  // namespace

Tensor einsum(const std::string& spec, Operand a, Operand b, Operand c) {
  CallScope scope(a.where);
  const std::vector<Tensor> inputs = {as_tensor(a), as_tensor(b), as_tensor(c)};
  Lists l;
  const std::map<char, int64_t> extents = checked_call(inputs, [&] {
    l = parse_three(spec);
    return extents_of(l, inputs, spec);
  });
  const auto multiplications = [&](const std::string& x, const std::string& y) {
    double count = 1;
    for (char letter : letters_between(x, y, x + y)) count *= double(extents.at(letter));
    return count;
  };
  const auto first_product = [&](size_t last) {  // of the two others
    const std::string &x = l.in[last == 0 ? 1 : 0], &y = l.in[last == 2 ? 1 : 2];
    return std::pair(x + "," + y + "->" + letters_between(x, y, l.out + l.in[last]), multiplications(x, y));
  };
  size_t last = 2;
  double least = std::numeric_limits<double>::infinity();
  for (size_t candidate : {2, 0, 1}) {  // on equal terms from left to right
    const auto [product, cost] = first_product(candidate);
    const double all = cost + multiplications(product.substr(product.find("->") + 2), l.in[candidate]);
    if (all < least) least = all, last = candidate;
  }
  const std::string product = first_product(last).first, letters = product.substr(product.find("->") + 2);
  Tensor two = einsum(product, inputs[last == 0 ? 1 : 0], inputs[last == 2 ? 1 : 2]);
  // A product of 16-bit operands is float32: the second one, whose other operand has 16 bits, rounds it.
  if (is_half(inputs[last].dtype())) two = cast(two, inputs[last].dtype());
  return einsum(letters + "," + l.in[last] + "->" + l.out, two, inputs[last]);
}

OperatorInfo einsum_info() {
  auto sample = [](const char* spec, const Shape& a, const Shape& b) {
    return OperatorSample{std::make_shared<Einsum>(spec), floats({a, b}), {}};
  };
  return {"einsum",
          "Products of two tensors summed over the letters missing from the result.",
          {sample("mk,kn->mn", {3, 4}, {4, 5}), sample("bthd,bshd->bhts", {2, 3, 2, 4}, {2, 5, 2, 4}),
           sample("bhts,bshd->bthd", {2, 3, 4, 5}, {2, 5, 3, 2}), sample("i,j->ij", {3}, {4}),
           sample("bk,k->b", {5, 3}, {3}), sample("ijk,j->i", {2, 3, 4}, {3}), sample("k,k->", {7}, {7})}};
}

}  // namespace hetsynth
