#include "dsl/ops/matmul.h"

#include <fmt/format.h>

#include "dsl/ir/trace.h"
#include "dsl/ops/einsum.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

void check(const Shape& a, const Shape& b, const std::vector<Tensor>& arguments) {
  std::string both = joined({a, b}, " x ");
  if (a[a.size() - 1] != b[b.size() - 2])
    fail_call({.tag = "matmul",
               .message = "inner dimensions disagree: " + both,
               .expected = fmt::format("a second argument with {} rows", a.back()),
               .found = fmt::format("{} rows", b[b.size() - 2]),
               .mend = b.back() == a.back() ? "transpose the second argument" : ""},
              arguments);
  bool same_batch = b.size() == 2 || (a.size() == b.size() && std::equal(a.begin(), a.end() - 2, b.begin()));
  if (!same_batch)
    fail_call({.tag = "matmul",
               .message = "leading dimensions disagree: " + both,
               .expected = "a second argument without leading dimensions, or with those of the first",
               .found = text(b),
               .mend = "reshape it, or say with einsum what belongs together"},
              arguments);
}

}  // namespace

Tensor matmul(Operand a, Operand b) {
  CallScope scope(a.where);
  std::vector<Tensor> arguments = {as_tensor(a), as_tensor(b)};
  std::vector<TensorType> types;
  for (Tensor t : arguments) types.push_back({t.shape(), t.dtype()});
  checked_call(arguments, [&] {
    require_products("matmul", types);
    for (size_t j = 0; j < 2; ++j) require_rank_at_least("matmul", j, types[j], 2);
  });
  const Shape left = arguments[0].shape(), right = arguments[1].shape();
  check(left, right, arguments);
  const std::string letters = "abcdefghij";
  if (left.size() > letters.size() + 2)
    fail_call({.tag = "matmul",
               .message = "too many leading dimensions",
               .expected = fmt::format("at most {}", letters.size()),
               .found = text(left),
               .mend = "merge some with reshape"},
              arguments);
  std::string batch = letters.substr(0, left.size() - 2);
  std::string spec = batch + "mk," + (right.size() == 2 ? "" : batch) + "kn->" + batch + "mn";
  return einsum(spec, arguments[0], arguments[1]);
}

OperatorInfo matmul_info() { return {"matmul", "Matrix products, batched.", {}}; }

}  // namespace hetsynth
