#include "dsl/ops/mean.h"

#include "dsl/ir/trace.h"
#include "dsl/ops/mul.h"
#include "dsl/ops/sum.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {

Tensor mean(Operand x, DimList dims, bool keepdim) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x);
  int64_t count = 1;
  for (int d : checked_call({in}, [&] { return normalize_dims("mean", dims.dims, in.shape()); })) count *= in.size(d);
  return sum(in, dims, keepdim) * (1.0 / double(count));
}

OperatorInfo mean_info() { return {"mean", "Mean over dimensions.", {}}; }

}  // namespace hetsynth
