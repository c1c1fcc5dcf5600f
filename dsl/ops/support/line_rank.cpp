#include "dsl/ops/support/line_rank.h"

#include "dsl/ops/positions.h"
#include "dsl/ops/reshape.h"
#include "dsl/ops/scatter_add.h"
#include "dsl/ops/to_float.h"
#include "dsl/ops/to_int.h"

namespace hetsynth {

PointwiseRule rank_rule(int dim) {
  Expr x = Expr::input(0), other = Expr::input(1);
  Expr comes_first = select(equal(x, other), less(Expr::factor(dim + 1), Expr::factor(dim)), 0.0);
  return {.tag = "top_k_rank",
          .body = select(less(x, other), 1.0, comes_first),
          .reduce = FactorKind::sum,
          .dims = {dim + 1},
          .vjp = [](const VjpArguments& v) { return std::vector<Tensor>(v.inputs.size()); }};
}

Tensor indices_by_rank(Tensor x, int64_t k, int dim) {
  Shape one = x.shape(), other = x.shape();
  one.insert(one.begin() + dim + 1, 1);
  other.insert(other.begin() + dim, 1);
  Tensor rank = to_int(pointwise(rank_rule(dim), {reshape(x, one), reshape(x, other)}));
  return to_int(scatter_add(to_float(positions(x.shape(), dim)), dim, rank, k));
}

}  // namespace hetsynth
