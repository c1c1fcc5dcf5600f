#include "dsl/ops/compare.h"

#include <fmt/format.h>

#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

using Relation = Expr (*)(const Expr& a, const Expr& b);

Expr is_less(const Expr& a, const Expr& b) { return less(a, b); }
Expr is_less_equal(const Expr& a, const Expr& b) { return less_equal(a, b); }
Expr is_greater(const Expr& a, const Expr& b) { return less(b, a); }
Expr is_greater_equal(const Expr& a, const Expr& b) { return less_equal(b, a); }
Expr is_equal(const Expr& a, const Expr& b) { return equal(a, b); }
Expr is_not_equal(const Expr& a, const Expr& b) { return 1.0 - equal(a, b); }

PointwiseRule rule(const char* tag, Relation relation, bool integers) {
  PointwiseRule rule{.tag = tag, .body = relation(Expr::input(0), Expr::input(1))};
  if (integers) rule.integers = {0, 1};
  return rule;
}

Tensor compare(const char* tag, Relation relation, const Operand& a, const Operand& b) {
  CallScope scope(a.where);
  if (a.is_number && b.is_number) return as_tensor(Operand(a.number, a.where));
  std::vector<Tensor> tensors;
  for (const Operand* side : {&a, &b})
    if (!side->is_number) tensors.push_back(as_tensor(*side));
  DType dtype = tensors[0].dtype();
  if (tensors.back().dtype() != dtype)
    fail_call({.tag = tag,
               .message = "numbers and indices cannot be compared",
               .expected = "two tensors of one type",
               .found = fmt::format("{} and {}", name(dtype), name(tensors.back().dtype())),
               .mend = "turn indices into numbers with to_float(indices)"},
              tensors);
  PointwiseRule rule{.tag = tag,
                     .body = relation(a.is_number ? Expr(a.number) : Expr::input(0),
                                      b.is_number ? Expr(b.number) : Expr::input(a.is_number ? 0 : 1))};
  if (dtype == DType::i32)
    for (size_t j = 0; j < tensors.size(); ++j) rule.integers.insert(int(j));
  return pointwise(rule, tensors, a.where);
}

}  // namespace

Tensor less(Operand a, Operand b) { return compare("less", is_less, a, b); }
Tensor less_equal(Operand a, Operand b) { return compare("less_equal", is_less_equal, a, b); }
Tensor greater(Operand a, Operand b) { return compare("greater", is_greater, a, b); }
Tensor greater_equal(Operand a, Operand b) { return compare("greater_equal", is_greater_equal, a, b); }
Tensor equal(Operand a, Operand b) { return compare("equal", is_equal, a, b); }
Tensor not_equal(Operand a, Operand b) { return compare("not_equal", is_not_equal, a, b); }
Tensor operator<(Operand a, Operand b) { return less(a, b); }
Tensor operator<=(Operand a, Operand b) { return less_equal(a, b); }
Tensor operator>(Operand a, Operand b) { return greater(a, b); }
Tensor operator>=(Operand a, Operand b) { return greater_equal(a, b); }
Tensor operator==(Operand a, Operand b) { return equal(a, b); }
Tensor operator!=(Operand a, Operand b) { return not_equal(a, b); }

OperatorInfo compare_info() {
  std::vector<OperatorSample> samples;
  auto add = [&](const char* tag, Relation relation) {
    samples.push_back({pointwise_operator(rule(tag, relation, false)), floats({{2, 3, 4}, {4}}), {}});
    samples.push_back({pointwise_operator(rule(tag, relation, true)),
                       {{{5, 1}, DType::i32}, {{5, 3}, DType::i32}},
                       {{0, 3}, {0, 3}}});
  };
  add("less", is_less);
  add("less_equal", is_less_equal);
  add("equal", is_equal);
  add("not_equal", is_not_equal);
  return {"compare", "Comparisons: 1 or 0.", samples};
}

}  // namespace hetsynth
