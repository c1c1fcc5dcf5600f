#include "dsl/ops/sort.h"

#include "dsl/ops/gather.h"
#include "dsl/ops/neg.h"
#include "dsl/ops/support/line_rank.h"
#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

/// Negated numbers in descending order are the numbers in ascending order, equal ones as they stood.
Tensor order(Tensor x, int dim, bool descending) { return indices_by_rank(descending ? x : -x, x.size(dim), dim); }

int dimension_of(const char* tag, Tensor x, int dim) {
  return checked_call({x}, [&] {
    require_dtype(tag, 0, {x.shape(), x.dtype()}, DType::f32);
    return normalize_dim(tag, dim, x.shape());
  });
}

}  // namespace

Sorted sort(Operand x, int dim, bool descending) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x);
  const int at = dimension_of("sort", in, dim);
  Tensor indices = order(in, at, descending);
  return {gather(in, at, indices), indices};
}

Tensor argsort(Operand x, int dim, bool descending) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x);
  return order(in, dimension_of("argsort", in, dim), descending);
}

OperatorInfo sort_info() { return {"sort", "Elements of a dimension in order.", {}}; }

}  // namespace hetsynth
