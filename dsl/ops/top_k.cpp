#include "dsl/ops/top_k.h"

#include <fmt/format.h>

#include "dsl/ops/argmax.h"
#include "dsl/ops/concat.h"
#include "dsl/ops/gather.h"
#include "dsl/ops/support/line_rank.h"
#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

constexpr int64_t largest_ranked_extent = 512;
constexpr double chosen_already = -3.4e38;  ///< finite, so that the proof can speak of it

/// Input 0 without the element whose index input 1 names.
PointwiseRule rest_rule(int dim) {
  return {.tag = "top_k_rest",
          .body = select(equal(Expr::input(1), Expr::factor(dim)), chosen_already, Expr::input(0)),
          .integers = {1}};
}

Tensor indices_by_search(Tensor x, int64_t k, int dim) {
  std::vector<Tensor> found;
  for (int64_t i = 0; i < k; ++i) {
    if (i) x = pointwise(rest_rule(dim), {x, found.back()});
    found.push_back(argmax(x, dim, true));
  }
  return k == 1 ? found[0] : concat(found, dim);
}

}  // namespace

TopK top_k(Operand x, int64_t k, int dim) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x);
  int at = checked_call({in}, [&] { return normalize_dim("top_k", dim, in.shape()); });
  checked_call({in}, [&] { require_dtype("top_k", 0, {in.shape(), in.dtype()}, DType::f32); });
  if (k < 1 || k > in.size(at))
    fail_call({.tag = "top_k",
               .message = fmt::format("there are no {} largest among {} elements", k, in.size(at)),
               .expected = fmt::format("1 <= k <= {}", in.size(at)),
               .found = std::to_string(k),
               .mend = "ask for fewer, or along another dimension"},
              {in});
  Tensor indices =
      k > 1 && in.size(at) <= largest_ranked_extent ? indices_by_rank(in, k, at) : indices_by_search(in, k, at);
  return {gather(in, at, indices), indices};
}

OperatorInfo top_k_info() {
  std::vector<TensorType> rest = {{{3, 5}, DType::f32}, {{3, 1}, DType::i32}};
  return {"top_k",
          "The largest elements along a dimension.",
          {{pointwise_operator(rank_rule(1)), floats({{3, 5, 1}, {3, 1, 5}}), {}},
           {pointwise_operator(rank_rule(0)), floats({{4, 1, 3}, {1, 4, 3}}), {}},
           {pointwise_operator(rest_rule(1)), rest, {{}, {0, 4}}}}};
}

}  // namespace hetsynth
