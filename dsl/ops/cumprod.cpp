#include "dsl/ops/cumprod.h"

#include "dsl/ops/mul.h"
#include "dsl/ops/pad.h"
#include "dsl/ops/slice.h"
#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {

Tensor cumprod(Operand x, int dim) {
  CallScope scope(x.where);
  Tensor out = as_tensor(x);
  const int at = checked_call({out}, [&] {
    require_dtype("cumprod", 0, {out.shape(), out.dtype()}, DType::f32);
    return normalize_dim("cumprod", dim, out.shape());
  });
  const int64_t extent = out.size(at);
  for (int64_t step = 1; step < extent; step *= 2) out = out * pad(slice(out, at, 0, extent - step), at, step, 0, 1.0);
  return out;
}

OperatorInfo cumprod_info() { return {"cumprod", "Running products.", {}}; }

}  // namespace hetsynth
