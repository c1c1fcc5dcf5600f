#include "dsl/ops/top_k.h"

#include <fmt/format.h>

#include "dsl/ops/argmax.h"
#include "dsl/ops/concat.h"
#include "dsl/ops/gather.h"
#include "dsl/ops/positions.h"
#include "dsl/ops/reshape.h"
#include "dsl/ops/scatter_add.h"
#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"
#include "dsl/ops/to_float.h"
#include "dsl/ops/to_int.h"

namespace hetsynth {
namespace {

constexpr int64_t largest_ranked_extent = 512;
constexpr double chosen_already = -3.4e38;  ///< finite, so that the proof can speak of it

std::vector<Tensor> no_gradient(const VjpArguments& v) { return std::vector<Tensor>(v.inputs.size()); }

/// How many elements of the line (input 1, along dimension dim + 1) come before the element (input 0, along dim).
PointwiseRule rank_rule(int dim) {
  Expr x = Expr::input(0), other = Expr::input(1);
  Expr comes_first = select(equal(x, other), less(Expr::factor(dim + 1), Expr::factor(dim)), 0.0);
  return {.tag = "top_k_rank",
          .body = select(less(x, other), 1.0, comes_first),
          .reduce = FactorKind::sum,
          .dims = {dim + 1},
          .vjp = no_gradient};
}

/// Input 0 without the element whose index input 1 names.
PointwiseRule rest_rule(int dim) {
  return {.tag = "top_k_rest",
          .body = select(equal(Expr::input(1), Expr::factor(dim)), chosen_already, Expr::input(0)),
          .integers = {1}};
}

Tensor indices_by_rank(Tensor x, int64_t k, int dim) {
  Shape one = x.shape(), other = x.shape();
  one.insert(one.begin() + dim + 1, 1);
  other.insert(other.begin() + dim, 1);
  Tensor rank = to_int(pointwise(rank_rule(dim), {reshape(x, one), reshape(x, other)}));
  return to_int(scatter_add(to_float(positions(x.shape(), dim)), dim, rank, k));
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
